#pragma once

using Number = float; /* of y */
