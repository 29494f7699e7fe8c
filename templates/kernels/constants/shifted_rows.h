#pragma once

constexpr unsigned AXIS = 770; /* elements of a row */
constexpr unsigned VECTOR = 4; /* elements of an access */
