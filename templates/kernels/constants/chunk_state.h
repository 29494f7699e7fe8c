#pragma once

constexpr unsigned CHUNK = 64; /* tokens of a chunk */
