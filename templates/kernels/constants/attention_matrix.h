/* Of attention by matrix instructions, beside what constants/attention.h says. */
#pragma once

constexpr unsigned DOWN = 1; /* rows of a warp, in 16 */
constexpr unsigned LAUNCH_GROUPS = 2; /* work-groups that a unit shall hold */
