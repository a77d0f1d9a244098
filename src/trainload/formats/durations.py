"""Spans of time as people write them: "100ms", "2.5s", "20us", "1min", or whole nanoseconds."""

from __future__ import annotations

import operator
import re
from fractions import Fraction

from trainload.errors import UsageError

_UNIT_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|min|h)\s*")
MAX_DURATION_NS = (1 << 63) - 1


def duration_ns(value: str | int, *, what: str = "a duration", least: int = 1) -> int:
    """Whole nanoseconds, at least `least`, of "100ms" or of an int that already counts nanoseconds.

    Raises UsageError, naming `what`, for anything else.
    """
    whole = _whole(value)
    if whole is not None:
        nanoseconds = whole
    else:
        match = _TEXT.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise UsageError(f'{what} is written like "100ms", "2s" or as whole nanoseconds, not {value!r}')
        nanoseconds = round(Fraction(match[1]) * _UNIT_NS[match[2]])
    if not least <= nanoseconds <= MAX_DURATION_NS:
        raise UsageError(f"{what} must be between {least} ns and 292 years, not {value!r}")
    return nanoseconds


def instant_ns(value: str | int, *, start_ns: int, what: str = "a time") -> int:
    """An absolute time in ns: of whole nanoseconds, in digits too, or of "1.5s" after `start_ns`.

    Raises UsageError, naming `what`, for anything else: 1.5 would be seconds to one and nanoseconds to another.
    """
    whole = _whole(value)
    if whole is not None:
        return whole
    if not isinstance(value, str):
        raise UsageError(
            f'{what} is in whole nanoseconds, or written like "1.5s" after the start of the recording, not {value!r}'
        )
    if value.isascii() and value.isdigit():
        return int(value)
    return start_ns + duration_ns(value, what=what, least=0)


def _whole(value: object) -> int | None:
    """An int, or a whole number of numpy's, as int; None for anything else, bool and float too."""
    if isinstance(value, bool | str | float):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
