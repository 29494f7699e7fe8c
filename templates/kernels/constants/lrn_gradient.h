#pragma once

#define WITH_TERM 0 /* what the first step left of dx is a tensor of its own: float */
