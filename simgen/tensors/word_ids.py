"""Numbers of words as they follow each other in a text: frequent ones first, by Zipf's law.

    P(k) = (k + 1)^-s / sum over j < n of (j + 1)^-s        k = 0 ... n - 1

    n  words of the vocabulary      s  exponent: 1 of natural languages, 0 if all are equally likely

Each number is the first whose cumulated probability is above a uniform number of 53 bits. Source:
G. K. Zipf, "Human Behavior and the Principle of Least Effort", 1949; WikiText's words by their
frequency are on such a line (S. Merity et al., "Pointer Sentinel Mixture Models", 2016).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from simgen.ground.ir import MOST_WORDS, STEEPEST, Distribution, Fill

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


TOKENS = 64  # their choices are drawn together


def draw(block: NDArray[np.int32], stream: np.random.Philox, fill: Fill) -> None:
    """Set `block` to numbers of words; `fill.a` is the vocabulary, `fill.b` the exponent."""
    import numpy as np

    uniform = (np.atleast_1d(stream.random_raw(block.size)) >> np.uint64(11)) * 2.0**-53
    block[:] = np.searchsorted(_cumulated(int(fill.a), fill.b), uniform, side="right")
    np.minimum(block, np.int32(fill.a - 1), out=block)  # the sum may end just below 1


@lru_cache(maxsize=4)
def _cumulated(words: int, exponent: float) -> NDArray[np.float64]:
    import numpy as np

    sums = np.cumsum(np.arange(1, words + 1, dtype=np.float64) ** -exponent)
    found: NDArray[np.float64] = sums / sums[-1]
    return found


def fault(fill: Fill) -> str | None:
    """What is wrong with a fill of this distribution, if anything."""
    if fill.a != int(fill.a) or not 1 <= fill.a <= MOST_WORDS:
        return f"a vocabulary of {fill.a} words, none of 1 to {MOST_WORDS}"
    if not 0 <= fill.b <= STEEPEST:
        return f"a Zipf exponent of {fill.b}, none of 0 to {STEEPEST}"
    if fill.distribution is Distribution.ROUTES and not 1 <= (fill.nonzeros or 0) <= fill.a:
        return f"{fill.nonzeros} different choices of {fill.a}"
    return None


def fill_routes(values: NDArray[np.int32], start: int, key: int, fill: Fill) -> None:
    """Set `values` to the elements from `start` on of tokens' choices: of each token `nonzeros`
    different ones of `fill.a`, drawn one after the other with the probabilities above, among which
    frequent ones lie anywhere. So the largest of log P less the logarithm of an exponential number
    are (E. J. Gumbel, "Statistical Theory of Extreme Values", 1954)."""
    import numpy as np

    words, each = int(fill.a), fill.nonzeros or 1
    places = np.random.Generator(np.random.Philox(key=key)).permutation(words)
    sums = _cumulated(words, fill.b)
    weights = np.log(np.diff(sums, prepend=0.0))[places]
    first, end = start // each, -(-(start + values.size) // each)
    for group in range(first // TOKENS, -(-end // TOKENS)):
        stream = np.random.Generator(np.random.Philox(key=key, counter=(group + 1) << 64))
        scores = weights - np.log(stream.standard_exponential((TOKENS, words)))
        chosen = np.argsort(-scores, axis=1, kind="stable")[:, :each].reshape(-1)
        at = group * TOKENS * each - start
        there = slice(max(at, 0), max(at + chosen.size, 0))
        values[there] = chosen[max(-at, 0) :][: values[there].size]
