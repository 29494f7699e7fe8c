#pragma once

enum class Algo { FAST, ACCURATE, LOG };

constexpr Algo ALGO = Algo::ACCURATE;
