#pragma once

constexpr float FLOOR = 0.0f; /* of Algo::MASKED: what hidden elements are below */
