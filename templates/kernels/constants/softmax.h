#pragma once

constexpr unsigned INNER = 1; /* elements between neighbours in a row */
constexpr bool IN_REGISTERS = false; /* all of HELD as float32, where they are not KEPT */
