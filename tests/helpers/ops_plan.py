"""What happens to one sample, as plain numbers: the operations and Philox in, steps out. The oracle of the core.

Same draws and formulas as cpp/core/geometry.h, pixel_ops.h and policies.h, which say them in words; in plain Python,
so that a test (or a curious user) can carry the steps out with Pillow. No pixel is touched here. Sides and places are
in pixels of the picture as it is at that step; "round" is to nearest, ties to even.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from core_testing import core_testing
from trainload.errors import UsageError
from trainload.images.ops.arguments import FILTERS
from trainload.images.ops.protocols import PictureOperation
from trainload.running.philox import Draws

JITTERS = ("Brightness", "Contrast", "Saturation", "Hue")
RAND_AUGMENT_NAMES = (
    "Identity",
    "ShearX",
    "ShearY",
    "TranslateX",
    "TranslateY",
    "Rotate",
    "Brightness",
    "Color",
    "Contrast",
    "Sharpness",
    "Posterize",
    "Solarize",
    "AutoContrast",
    "Equalize",
)
_SIGNED = frozenset(RAND_AUGMENT_NAMES[1:10])
_PADDING_MODES = ("constant", "edge", "reflect", "symmetric")
_TRIES = 10
_NUMBERS = 16  # of an operation, at most: those that are not given are 0


@dataclass(frozen=True)
class Scale:
    """The box becomes the whole picture, resized to `to_width` x `to_height` by the filter `interpolation`."""

    left: int
    top: int
    width: int
    height: int
    to_width: int
    to_height: int
    interpolation: str = "bilinear"


@dataclass(frozen=True)
class Cut:
    """The box becomes the whole picture; where it reaches outside, `padding_mode` and `fill` answer."""

    left: int
    top: int
    width: int
    height: int
    padding_mode: str = "constant"
    fill: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class Flip:
    """Left and right exchanged, or top and bottom."""

    is_horizontal: bool


@dataclass(frozen=True)
class Change:
    """One operation on pixels. amount: jitter factor, hue shift, sigma, degrees, or the augmentation's magnitude.

    name: of JITTERS, "Grayscale", "GaussianBlur", "Rotation", or "augment." and the augmentation's name.
    """

    name: str
    amount: float = 0.0


@dataclass(frozen=True)
class Noise:
    """Normal numbers of `mean` and `sigma` (in units of 0 .. 1) are added: those of cpp/core/noise.h under `key`."""

    mean: float
    sigma: float
    key: tuple[int, int]


@dataclass(frozen=True)
class Erase:
    """The box is filled; with `value`, or with normal numbers where it is None."""

    left: int
    top: int
    width: int
    height: int
    value: tuple[float, float, float] | None


Step = Scale | Cut | Flip | Change | Noise | Erase


class Mirror(NamedTuple):
    """Whether left and right, top and bottom have been exchanged so far: then random places count from the far end."""

    x: bool
    y: bool

    def turned(self, flip: Flip) -> Mirror:
        """After one more flip."""
        return Mirror(self.x ^ flip.is_horizontal, self.y ^ (not flip.is_horizontal))

    def place(self, x: int, y: int, room_x: int, room_y: int) -> tuple[int, int]:
        """Drawn numbers 0 .. room as what lies to the left of a box and above it."""
        return room_x - x if self.x else x, room_y - y if self.y else y


def plan_sample(
    ops: Sequence[tuple[int, PictureOperation]],
    *,
    width: int,
    height: int,
    seed: int,
    epoch: int,
    sample: int,
    draw: int = 0,
) -> list[Step]:
    """The steps of one sample, in the order of the operations; those that change nothing are left out.

    ops: (position in the user's list, operation), as in `OpSplit.core`. draw: how often the epoch has had the sample
    before. Raises UsageError for a crop that is larger than its picture.
    """
    steps: list[Step] = []
    mirror = Mirror(False, False)
    for position, op in ops:
        kind, numbers = op.spec()
        numbers = [*numbers, *[0.0] * (_NUMBERS - len(numbers))]  # as the core does
        draws = Draws(seed, epoch, sample, position, draw)
        plan = _GEOMETRY.get(kind)
        new = plan(numbers, draws, width, height, mirror) if plan else _PLANS[kind](numbers, draws, width, height)
        for step in new:
            if isinstance(step, Scale):
                width, height = step.to_width, step.to_height
            elif isinstance(step, Cut):
                width, height = step.width, step.height
            elif isinstance(step, Flip):
                mirror = mirror.turned(step)
        steps += new
    return steps


def _random_resized_crop(p: list[float], draws: Draws, width: int, height: int, mirror: Mirror) -> list[Step]:
    to_height, to_width, interpolation = int(p[0]), int(p[1]), FILTERS[int(p[6])]
    low, high = math.log(p[4]), math.log(p[5])
    for _ in range(_TRIES):
        area = width * height * draws.uniform(p[2], p[3])
        ratio = math.exp(draws.uniform(low, high))
        box_width, box_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < box_width <= width and 0 < box_height <= height:
            room_x, room_y = width - box_width, height - box_height
            y, x = draws.below(room_y + 1), draws.below(room_x + 1)
            left, top = mirror.place(x, y, room_x, room_y)
            return [Scale(left, top, box_width, box_height, to_width, to_height, interpolation)]
    box_width, box_height = width, height
    if width / height < p[4]:
        box_height = min(max(round(width / p[4]), 1), height)
    elif width / height > p[5]:
        box_width = min(max(round(height * p[5]), 1), width)
    left, top = (width - box_width) // 2, (height - box_height) // 2
    return [Scale(left, top, box_width, box_height, to_width, to_height, interpolation)]


def _resize(p: list[float], draws: Draws, width: int, height: int, mirror: Mirror) -> list[Step]:
    interpolation = FILTERS[int(p[3])]
    if p[1]:
        return [Scale(0, 0, width, height, int(p[1]), int(p[0]), interpolation)]
    shorter = int(p[0])
    longer = int(shorter * max(width, height) / min(width, height))
    if p[2] and longer > p[2]:
        shorter, longer = int(p[2] * shorter / longer), int(p[2])
    to_width, to_height = (shorter, longer) if width <= height else (longer, shorter)
    return [Scale(0, 0, width, height, to_width, to_height, interpolation)]


def _random_scale(p: list[float], draws: Draws, width: int, height: int, mirror: Mirror) -> list[Step]:
    x = draws.uniform(p[0], p[1])
    y = draws.uniform(p[0], p[1]) if p[3] else x
    to_width, to_height = max(1, int(width * x)), max(1, int(height * y))
    return [Scale(0, 0, width, height, to_width, to_height, FILTERS[int(p[2])])]


def _center_crop(p: list[float], draws: Draws, width: int, height: int, mirror: Mirror) -> list[Step]:
    def start(have: int, need: int) -> int:
        return -((need - have) // 2) if need > have else round((have - need) / 2.0)

    to_height, to_width = int(p[0]), int(p[1])
    return [Cut(start(width, to_width), start(height, to_height), to_width, to_height)]


def _random_crop(p: list[float], draws: Draws, width: int, height: int, mirror: Mirror) -> list[Step]:
    to_height, to_width, left, top, right, bottom = (int(number) for number in p[:6])
    if p[6]:
        lack_x = max(0, to_width - (width + left + right))
        lack_y = max(0, to_height - (height + top + bottom))
        left, right, top, bottom = left + lack_x, right + lack_x, top + lack_y, bottom + lack_y
    room_x, room_y = width + left + right - to_width, height + top + bottom - to_height
    if room_x < 0 or room_y < 0:
        raise UsageError(f"RandomCrop takes {to_width}x{to_height} from a picture of {width}x{height}")
    y, x = draws.below(room_y + 1), draws.below(room_x + 1)
    x, y = mirror.place(x, y, room_x, room_y)
    fill = (int(p[8]), int(p[9]), int(p[10]))
    return [Cut(x - left, y - top, to_width, to_height, _PADDING_MODES[int(p[7])], fill)]


def _pad(p: list[float], draws: Draws, width: int, height: int, mirror: Mirror) -> list[Step]:
    left, top, right, bottom = (int(number) for number in p[:4])
    fill = (int(p[5]), int(p[6]), int(p[7]))
    return [Cut(-left, -top, width + left + right, height + top + bottom, _PADDING_MODES[int(p[4])], fill)]


def _horizontal_flip(p: list[float], draws: Draws, width: int, height: int) -> list[Step]:
    return [Flip(is_horizontal=True)] if draws.uniform() < p[0] else []


def _vertical_flip(p: list[float], draws: Draws, width: int, height: int) -> list[Step]:
    return [Flip(is_horizontal=False)] if draws.uniform() < p[0] else []


def _color_jitter(p: list[float], draws: Draws, width: int, height: int) -> list[Step]:
    order = [0, 1, 2, 3]
    for i in (3, 2, 1):
        j = draws.below(i + 1)
        order[i], order[j] = order[j], order[i]
    amounts = [draws.uniform(p[2 * i], p[2 * i + 1]) for i in range(4)]
    nothing = (1.0, 1.0, 1.0, 0.0)
    return [Change(JITTERS[i], amounts[i]) for i in order if (p[2 * i], p[2 * i + 1]) != (nothing[i],) * 2]


def _random_grayscale(p: list[float], draws: Draws, width: int, height: int) -> list[Step]:
    return [Change("Grayscale")] if draws.uniform() < p[0] else []


def _random_autocontrast(p: list[float], draws: Draws, width: int, height: int) -> list[Step]:
    return [Change("augment.AutoContrast")] if draws.uniform() < p[0] else []


def _gaussian_noise(p: list[float], draws: Draws, width: int, height: int) -> list[Step]:
    return [Noise(p[0], p[1], (draws.bits(), draws.bits()))]


def _gaussian_blur(p: list[float], draws: Draws, width: int, height: int) -> list[Step]:
    return [Change("GaussianBlur", draws.uniform(p[2], p[3]))]


def _random_rotation(p: list[float], draws: Draws, width: int, height: int) -> list[Step]:
    return [Change("Rotation", draws.uniform(p[0], p[1]))]


def _augmentation(name: str, bin_: int, bins: int, is_negative: bool, width: int, height: int) -> Change:
    magnitude = 0.0 if bin_ < 0 else magnitude_of(name, bin_, bins, width, height)
    return Change(f"augment.{name}", -magnitude if is_negative and name in _SIGNED else magnitude)


def _rand_augment(p: list[float], draws: Draws, width: int, height: int) -> list[Step]:
    steps: list[Step] = []
    for _ in range(int(p[0])):
        name = RAND_AUGMENT_NAMES[draws.below(len(RAND_AUGMENT_NAMES))]
        is_negative = draws.uniform() < 0.5
        steps.append(_augmentation(name, int(p[1]), int(p[2]), is_negative, width, height))
    return steps


def _auto_augment(p: list[float], draws: Draws, width: int, height: int) -> list[Step]:
    policy = core_testing.learned_policy(int(p[0]))
    steps: list[Step] = []
    for name, probability, bin_ in policy[draws.below(len(policy))]:
        is_chosen, is_negative = draws.uniform() < probability, draws.uniform() < 0.5
        if is_chosen:
            steps.append(_augmentation(name, bin_, 10, is_negative, width, height))
    return steps


def magnitude_of(name: str, bin_: int, bins: int, width: int, height: int) -> float:
    """The magnitude of a bin in the units of the augmentation, without sign; 0 for those that have none."""
    if name == "Posterize":
        return float(round(8.0 - bin_ / ((bins - 1) / 4.0)))
    if name == "Solarize":
        return _linspace(1.0, 0.0, bins, bin_)
    full = {"Rotate": 30.0, "TranslateX": 150.0 / 331.0 * width, "TranslateY": 150.0 / 331.0 * height}
    full |= dict.fromkeys(("ShearX", "ShearY"), 0.3)
    full |= dict.fromkeys(("Brightness", "Color", "Contrast", "Sharpness"), 0.9)
    return _linspace(0.0, full.get(name, 0.0), bins, bin_)


def _linspace(first: float, last: float, count: int, i: int) -> float:
    """torch.linspace(first, last, count)[i]: in single precision, from the nearer end, with one rounding."""
    start, end = np.float32(first), np.float32(last)
    step = float((end - start) / np.float32(count - 1))
    return float(np.float32(float(start) + step * i if i < count // 2 else float(end) - step * (count - 1 - i)))


def _random_erasing(p: list[float], draws: Draws, width: int, height: int) -> list[Step]:
    if draws.uniform() >= p[0]:
        return []
    low, high = math.log(p[3]), math.log(p[4])
    for _ in range(_TRIES):
        area = height * width * draws.uniform(p[1], p[2])
        ratio = math.exp(draws.uniform(low, high))
        box_height, box_width = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if box_height < height and box_width < width:
            top, left = draws.below(height - box_height + 1), draws.below(width - box_width + 1)
            return [Erase(left, top, box_width, box_height, None if p[5] else (p[6], p[7], p[8]))]
    return []


_GEOMETRY = {
    "random_resized_crop": _random_resized_crop,
    "resize": _resize,
    "random_scale": _random_scale,
    "center_crop": _center_crop,
    "random_crop": _random_crop,
    "pad": _pad,
}
_PLANS = {
    "horizontal_flip": _horizontal_flip,
    "vertical_flip": _vertical_flip,
    "color_jitter": _color_jitter,
    "random_grayscale": _random_grayscale,
    "random_autocontrast": _random_autocontrast,
    "gaussian_blur": _gaussian_blur,
    "gaussian_noise": _gaussian_noise,
    "random_rotation": _random_rotation,
    "rand_augment": _rand_augment,
    "auto_augment": _auto_augment,
    "random_erasing": _random_erasing,
}
