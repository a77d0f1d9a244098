"""What the operations accept: one function per shape of argument, each returns the plain form or raises UsageError."""

from __future__ import annotations

from collections.abc import Sequence

from trainload.errors import UsageError

Fill = float | Sequence[float]
Interval = tuple[float, float]

_SIDE_LIMIT = 65535  # pixels: the largest side a JPEG can have


def probability(name: str, value: float) -> None:
    """A number in [0, 1]."""
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"{name} is {value}; a probability lies in 0 .. 1")


def interval(name: str, value: Sequence[float], *, low: float, high: float = 1e9) -> Interval:
    """Two numbers low <= a <= b <= high."""
    if not isinstance(value, Sequence) or len(value) != 2 or not low <= value[0] <= value[1] <= high:
        raise UsageError(f"{name} is {value!r}; give (min, max) with {low} <= min <= max <= {high}")
    return float(value[0]), float(value[1])


def positive_interval(name: str, value: Sequence[float], *, high: float = 1e9) -> Interval:
    """Two numbers 0 < a <= b <= high."""
    bounds = interval(name, value, low=0.0, high=high)
    if bounds[0] == 0.0:
        raise UsageError(f"{name} is {value!r}; its min must be above 0")
    return bounds


def side(name: str, value: object) -> int:
    """A picture's side in pixels, 1 .. 65535."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _SIDE_LIMIT:
        raise UsageError(f"{name} is {value!r}; give a number of pixels in 1 .. {_SIDE_LIMIT}")
    return value


def sides(name: str, value: object) -> tuple[int, ...]:
    """One side or two: a number, or a sequence of one or two numbers."""
    listed = tuple(value) if isinstance(value, Sequence) else (value,)
    if len(listed) not in (1, 2):
        raise UsageError(f"{name} is {value!r}; give one number or (height, width)")
    return tuple(side(name, entry) for entry in listed)


def size(name: str, value: object) -> tuple[int, int]:
    """(height, width): one number gives a square."""
    listed = sides(name, value)
    return listed[0], listed[-1]


def colour(name: str, value: Fill) -> tuple[float, float, float]:
    """(red, green, blue): one number stands for all three."""
    channels = tuple(value) if isinstance(value, Sequence) else (value,)
    if len(channels) == 1:
        channels *= 3
    if len(channels) != 3 or not all(isinstance(channel, int | float) for channel in channels):
        raise UsageError(f"{name} is {value!r}; give one number or (red, green, blue)")
    return float(channels[0]), float(channels[1]), float(channels[2])


def fill_colour(value: Fill | None) -> tuple[float, float, float]:
    """(red, green, blue) in whole numbers 0 .. 255; None is black."""
    channels = colour("fill", 0 if value is None else value)
    if any(not 0 <= channel <= 255 or channel != int(channel) for channel in channels):
        raise UsageError(f"fill is {value!r}; give whole numbers in 0 .. 255")
    return channels


def choice(name: str, value: object, names: Sequence[str]) -> int:
    """The position of the value among the names. Torchvision's enums count as the names that are their values."""
    plain = getattr(value, "value", value)
    if plain not in names:
        raise UsageError(f"{name} is {value!r}; give one of {', '.join(names)}")
    return names.index(plain)


def bilinear(operation: str, interpolation: object, antialias: bool | None) -> None:
    """The one filter that the core resizes with."""
    if getattr(interpolation, "value", interpolation) != "bilinear" or antialias is False:
        raise UsageError(f"{operation} resizes with interpolation='bilinear' and antialias=True only")
