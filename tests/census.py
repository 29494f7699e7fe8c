"""One test of many small cases, which names all that fail."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SHOWN = 300  # characters of a case in a message


def census(
    names: str, cases: Iterable[Any] | Callable[[], Iterable[Any]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like `pytest.mark.parametrize`, for cases that cost little and leave nothing behind.

    Cases share the test's fixtures. A function makes them when the test runs.
    """
    own = names.replace(" ", "").split(",")

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def whole(**fixtures: Any) -> None:
            found = cases() if callable(cases) else cases
            several = (dict(zip(own, case if len(own) > 1 else (case,))) for case in found)
            check_all(test, several, **fixtures)

        signature = inspect.signature(test)
        left = [each for each in signature.parameters.values() if each.name not in own]
        assert len(left) + len(own) == len(signature.parameters), f"{names} are not its arguments"
        made = named(test, whole)
        made.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return made

    return decorate


def check_all(test: Callable[..., None], cases: Iterable[dict[str, Any]], **fixtures: Any) -> None:
    """Call the test with each case; raises what failed, each with its case."""
    wrong: list[BaseException] = []
    cases = list(cases)
    for case in cases:
        try:
            test(**case, **fixtures)
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"with {', '.join(map(str, case.values()))}"[:SHOWN])
            wrong.append(error)
    assert cases, "no cases"
    if wrong:
        raise BaseExceptionGroup(f"{len(wrong)} of {len(cases)} cases fail", wrong)


def named(test: Callable[..., None], whole: Callable[..., None]) -> Callable[..., None]:
    """`whole`, with the name and the marks of `test`."""
    whole.__name__, whole.__doc__, whole.__module__ = test.__name__, test.__doc__, test.__module__
    whole.__dict__.update({k: v for k, v in vars(test).items() if k != "__wrapped__"})
    return whole
