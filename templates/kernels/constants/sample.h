#pragma once

#define GREEDY 0 /* the largest element; otherwise by a random number */
