#pragma once

#define KERNEL router_sample
constexpr unsigned BLOCK = 256;
constexpr Scores SCORES = Scores::SOFTMAX;
constexpr unsigned ROWS = 100; /* tokens */
constexpr unsigned EXPERTS = 128;
constexpr unsigned TOP_K = 8; /* experts of a token */
constexpr unsigned GROUPS = 1; /* of experts */
constexpr unsigned TOP_GROUPS = 1; /* of which a token's are */
constexpr bool NORMALISED = true; /* the weights of a token by their sum */
constexpr float SCALE = 1.0f; /* their sum then */
#define CORRECTED 0 /* what is compared has a bias */
using Element = float; /* of scores in memory */
