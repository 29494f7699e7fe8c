"""Names of results, and of the folders that they lie in: `TARGET`, or `TARGET@OPTION=VALUE,...`.

The second is that of a run with other options than the usual ones, or a point of a sweep, with the
options in the order in which the target has them, then layers, and where it ran by pieces
CUT_OPTIONS and last of CUTS. A value that no folder can be called is cut, with a digest behind it.
A sweep over settings of a build has bundles named the same way: `BUNDLE@SETTING=VALUE,...`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence

from simgen.ask.run import NONE, RunChoices, RunCommand

MARK = "@"  # between a target and a point
# What runs by pieces are called; the last may stand behind another.
CUTS = REPRESENTATIVES, PIECES, SAMPLED, SCALED = "representatives", "pieces", "sampled", "scaled"
CUT_OPTIONS = "sample", "scale_model", "warm"  # options of `simgen run` beside those of targets
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
VALUE = re.compile(r"[A-Za-z0-9._+=@-]{1,60}", re.ASCII)  # may stand in the name of a folder
UNSAFE = re.compile(r"[^A-Za-z0-9._+=@-]+", re.ASCII)
UNSAFE_LAYERS = re.compile(r"[^a-zA-Z0-9._-]")
LONGEST = 160  # letters of a name; a folder has 255, some of them for what is not finished
QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([KMG]i|[kMG])?(?:B|Hz)?")


def of_point(target: str, options: Mapping[str, str | int]) -> str:
    """The name of a sweep's point: letters, digits and .,=_@- only."""
    name = f"{target}{MARK}" + ",".join(f"{k}={_value(str(v))}" for k, v in options.items())
    return name if len(name) <= LONGEST else f"{target}{MARK}options={_digest(name)}"


def of_run(target: str, options: Mapping[str, str | int], words: Sequence[str] = ()) -> str:
    """The name of a run's result; `words` are of layers, and of CUTS."""
    name = of_point(target, options) if options else target
    for word in words:
        name = of_pieces(name, word)
    return name


def _value(text: str) -> str:
    if VALUE.fullmatch(text):
        return text
    return f"{UNSAFE.sub('_', text)[:24]}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def of_asked(asked: RunChoices) -> list[str]:
    """What the name of a result says of what was asked for, beside options of the target: layers,
    CUT_OPTIONS that change figures, and one of CUTS."""
    words = [] if asked.layers is None else [UNSAFE_LAYERS.sub("_", asked.layers)]
    if not asked.by_pieces:
        return words
    words += [f"{name}={value}" for name, value in cut_options(asked).items()]
    found = (asked.representatives, REPRESENTATIVES), (asked.sample, SAMPLED)
    cuts = [word for given, word in (*found, (asked.scale_model, SCALED)) if given]
    return [*words, ",".join(cuts) or PIECES]


def cut_options(asked: RunChoices) -> dict[str, str]:
    """Options of CUT_OPTIONS that change figures."""
    if not asked.by_pieces:
        return {}
    given = {each.name: value for each, value in asked.given().items()}
    found = {name: f"{given[name]:g}" for name in CUT_OPTIONS[:2] if name in given}
    return found | ({"warm": NONE} if asked.warm == NONE else {})


def of_pieces(result: str, word: str) -> str:
    """The name of a result that is made by pieces; `word` is one of CUTS, or two with a comma."""
    return f"{result}{',' if MARK in result else MARK}{word}"


def in_sweep(bundle: str, result: str) -> tuple[str, str]:
    """The bundle whose sweep a result is of, and the name of its point there.

    Those of `host@mode=x` in `net@n=4` are `net` and `host@n=4,mode=x`. A result of no such sweep
    keeps its names.
    """
    settings = options_of(bundle)
    words = words_of(result)
    if not settings or not set(words) <= set(CUTS):
        return bundle, result
    point = of_point(target_of(result), {**settings, **options_of(result)})
    return target_of(bundle), ",".join((point, *words))


def target_of(result: str) -> str:
    """The target of a result, of a sweep or not."""
    return result.partition(MARK)[0]


def options_of(result: str) -> dict[str, str]:
    """The options of a point by the name of its result; empty where it is of no sweep."""
    pairs = [each.partition("=") for each in result.partition(MARK)[2].split(",")]
    return {name: value for name, equals, value in pairs if equals}


def shortened(results: Sequence[str]) -> dict[str, str]:
    """Names without the options that all points of their target share."""
    given = {name: options_of(name) for name in results}
    shared: dict[str, set[tuple[str, str]]] = {}
    for name, options in given.items():
        shared[target_of(name)] = shared.get(target_of(name), {*options.items()}) & options.items()
    short = {}
    for name, options in given.items():
        target = target_of(name)
        left = [f"{k}={v}" for k, v in options.items() if (k, v) not in shared[target]]
        words = ",".join((*left, *words_of(name)))
        short[name] = f"{target}{MARK}{words}" if words else target
    return short if len(set(short.values())) == len(set(results)) else {r: r for r in results}


def asked(result: str, known: Collection[str]) -> RunCommand:
    """What the name of a result says of a run by hand, of which nothing else tells; `known` are the
    options of its target."""
    given = options_of(result).items()
    return RunCommand(target_of(result), options={k: v for k, v in given if k in known})


def words_of(result: str) -> list[str]:
    """What else its name says: layers, and one of CUTS."""
    return [each for each in result.partition(MARK)[2].split(",") if each and "=" not in each]


def magnitude(value: str) -> float | None:
    """What a value measures, in bytes, Hz or pieces: 1024.0 of "1KiB". None of a word."""
    found = QUANTITY.fullmatch(value)
    return float(found[1]) * UNITS[found[2] or ""] if found else None


def rank(result: str) -> tuple[object, ...]:
    """Sorts results of a target: numbers by what they measure."""
    return rank_of(options_of(result))


def rank_of(options: Mapping[str, str]) -> tuple[object, ...]:
    """Sorts options as `rank` does results."""
    parts = []
    for name, value in options.items():
        size = magnitude(value)
        parts.append((name, size is None, size or 0.0, value))
    return tuple(parts)
