#pragma once

constexpr bool MASKED = false; /* rows of nothing but elements below FLOOR are 0 */
constexpr float FLOOR = 0.0f;
