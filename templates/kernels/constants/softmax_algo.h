#pragma once

enum class Algo { FAST, ACCURATE, LOG, MASKED };

constexpr Algo ALGO = Algo::ACCURATE;
