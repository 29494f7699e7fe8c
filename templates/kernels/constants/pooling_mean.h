#pragma once

/* Of a mean: */
constexpr bool EVEN = false; /* all elements of a window count in it, wherever it lies */
constexpr unsigned MARGIN_H = 1; /* padding that counts, where not all of it does */
constexpr unsigned MARGIN_W = 1;
