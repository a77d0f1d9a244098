"""What the operations accept: one function per shape of argument, each returns the plain form or raises UsageError."""

from __future__ import annotations

from collections.abc import Sequence

from trainload.errors import UsageError

Fill = float | Sequence[float]
Interval = tuple[float, float]

FILTERS = ("bilinear", "bicubic", "lanczos", "box", "nearest")
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


def padding(value: int | Sequence[int]) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) in pixels: no number is none, one is all, two are left and right, top and bottom."""
    sides = (value,) if isinstance(value, int) else tuple(value)
    if len(sides) not in (0, 1, 2, 4) or any(not 0 <= side <= _SIDE_LIMIT for side in sides):
        raise UsageError(f"padding is {value!r}; give 1, 2 or 4 numbers of pixels in 0 .. {_SIDE_LIMIT}")
    if not sides:
        return 0, 0, 0, 0
    repeated = sides * (4 // len(sides))
    return repeated[0], repeated[1], repeated[2], repeated[3]


def resize_filter(interpolation: object, antialias: bool | None) -> int:
    """The number of a filter that the core resizes with (cpp/core/filter.h); all but "nearest" are antialiased."""
    number = choice("interpolation", interpolation, FILTERS)
    if antialias is False and FILTERS[number] != "nearest":
        raise UsageError(f"interpolation={FILTERS[number]!r} is antialiased: antialias=False goes with 'nearest' only")
    return number
