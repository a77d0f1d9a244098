"""The operations on one picture, as frozen values with the names, defaults and ranges of torchvision.transforms.v2.

An operation here is a request: `spec()` says it to the core as a kind and at most 16 numbers, whose meaning stands in
cpp/core/geometry.h (crops, resizes, flips, erasing) and cpp/core/pixel_ops.h (the rest). No pixel is touched here.
Sizes are (height, width) in pixels. Every constructor raises UsageError where torchvision would raise ValueError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trainload.errors import UsageError
from trainload.images.ops import arguments as checks
from trainload.images.ops.arguments import Fill
from trainload.images.ops.protocols import OwnOperation, PictureOperation, Spec

Interpolation = Literal["nearest", "bilinear"]
ResizeFilter = Literal["bilinear", "bicubic", "lanczos", "box", "nearest"]
PaddingMode = Literal["constant", "edge", "reflect", "symmetric"]

_INTERPOLATIONS = ("nearest", "bilinear")
_PADDING_MODES = ("constant", "edge", "reflect", "symmetric")
_POLICIES = ("imagenet", "cifar10", "svhn")


@dataclass(frozen=True)
class RandomResizedCrop(OwnOperation, PictureOperation):
    """A random box of the picture, resized: area `scale` of the whole, width over height in `ratio`."""

    size: int | Sequence[int]
    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0)
    interpolation: ResizeFilter = "bilinear"
    antialias: bool | None = True

    def __post_init__(self) -> None:
        self.spec()

    def spec(self) -> Spec:
        scale = checks.positive_interval("scale", self.scale)
        ratio = checks.positive_interval("ratio", self.ratio)
        filter_number = checks.resize_filter(self.interpolation, self.antialias)
        return "random_resized_crop", [*checks.size("size", self.size), *scale, *ratio, filter_number]


@dataclass(frozen=True)
class Resize(OwnOperation, PictureOperation):
    """The picture resized to (height, width), or by one number: the shorter side, the longer at most `max_size`."""

    size: int | Sequence[int]
    interpolation: ResizeFilter = "bilinear"
    max_size: int | None = None
    antialias: bool | None = True

    def __post_init__(self) -> None:
        self.spec()

    def spec(self) -> Spec:
        sides = checks.sides("size", self.size)
        filter_number = checks.resize_filter(self.interpolation, self.antialias)
        if len(sides) == 2:
            if self.max_size is not None:
                raise UsageError("max_size goes with one number for size (the shorter side)")
            return "resize", [*sides, 0.0, filter_number]
        shorter = sides[0]
        longest = 0 if self.max_size is None else checks.side("max_size", self.max_size)
        if longest and longest <= shorter:
            raise UsageError(f"max_size {longest} must be above size {shorter}")
        return "resize", [shorter, 0.0, longest, filter_number]


@dataclass(frozen=True)
class RandomScale(OwnOperation, PictureOperation):
    """Both sides times one random factor; a crop must follow, as the pictures of a batch have one size.

    scale: the factor's range. The sides are cut to whole pixels. (torchvision's ScaleJitter, without its target size.)
    each_side: width and height have factors of their own (the published RandomScale, which a CenterCrop to the
    pictures' own size then completes).
    """

    scale: Sequence[float] = (0.8, 1.2)
    interpolation: ResizeFilter = "bilinear"
    antialias: bool | None = True
    each_side: bool = False

    def __post_init__(self) -> None:
        self.spec()

    def spec(self) -> Spec:
        scale = checks.positive_interval("scale", self.scale)
        filter_number = checks.resize_filter(self.interpolation, self.antialias)
        return "random_scale", [*scale, filter_number, float(self.each_side)]


@dataclass(frozen=True)
class CenterCrop(OwnOperation, PictureOperation):
    """The middle of the picture; where the picture is smaller, black around it."""

    size: int | Sequence[int]

    def __post_init__(self) -> None:
        self.spec()

    def spec(self) -> Spec:
        return "center_crop", [*checks.size("size", self.size)]


@dataclass(frozen=True)
class RandomCrop(OwnOperation, PictureOperation):
    """A box of this size at a random place of the picture, which is padded before.

    padding: one number, (left and right, top and bottom) or (left, top, right, bottom).
    """

    size: int | Sequence[int]
    padding: int | Sequence[int] | None = None
    pad_if_needed: bool = False
    fill: Fill = 0
    padding_mode: PaddingMode = "constant"

    def __post_init__(self) -> None:
        self.spec()

    def spec(self) -> Spec:
        padding = checks.padding(() if self.padding is None else self.padding)
        numbers = [*checks.size("size", self.size), *padding, float(self.pad_if_needed)]
        mode = checks.choice("padding_mode", self.padding_mode, _PADDING_MODES)
        return "random_crop", [*numbers, mode, *checks.fill_colour(self.fill)]


@dataclass(frozen=True)
class Pad(OwnOperation, PictureOperation):
    """Pixels around the picture: of one colour, or the picture's own.

    padding: one number, (left and right, top and bottom) or (left, top, right, bottom).
    """

    padding: int | Sequence[int]
    fill: Fill = 0
    padding_mode: PaddingMode = "constant"

    def __post_init__(self) -> None:
        self.spec()

    def spec(self) -> Spec:
        mode = checks.choice("padding_mode", self.padding_mode, _PADDING_MODES)
        return "pad", [*checks.padding(self.padding), mode, *checks.fill_colour(self.fill)]


@dataclass(frozen=True)
class RandomHorizontalFlip(OwnOperation, PictureOperation):
    """Left and right exchanged with probability p."""

    p: float = 0.5

    def __post_init__(self) -> None:
        checks.probability("p", self.p)

    def spec(self) -> Spec:
        return "horizontal_flip", [self.p]


@dataclass(frozen=True)
class RandomVerticalFlip(OwnOperation, PictureOperation):
    """Top and bottom exchanged with probability p."""

    p: float = 0.5

    def __post_init__(self) -> None:
        checks.probability("p", self.p)

    def spec(self) -> Spec:
        return "vertical_flip", [self.p]


@dataclass(frozen=True)
class ColorJitter(OwnOperation, PictureOperation):
    """Brightness, contrast, saturation and hue changed by random factors, in a random order.

    A number x means factors in [max(0, 1 - x), 1 + x] (hue: [-x, x], x <= 0.5 of the circle); a pair gives the range.
    """

    brightness: float | Sequence[float] | None = None
    contrast: float | Sequence[float] | None = None
    saturation: float | Sequence[float] | None = None
    hue: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        self.spec()

    def spec(self) -> Spec:
        factors = [
            _jitter_range("brightness", self.brightness),
            _jitter_range("contrast", self.contrast),
            _jitter_range("saturation", self.saturation),
            _hue_range(self.hue),
        ]
        return "color_jitter", [bound for factor in factors for bound in factor]


def _jitter_range(name: str, value: float | Sequence[float] | None) -> tuple[float, float]:
    if value is None:
        return 1.0, 1.0
    if isinstance(value, int | float):
        if value < 0:
            raise UsageError(f"{name} is {value}; a single number must not be negative")
        return max(0.0, 1.0 - value), 1.0 + value
    return checks.interval(name, value, low=0.0)


def _hue_range(value: float | Sequence[float] | None) -> tuple[float, float]:
    if value is None:
        return 0.0, 0.0
    pair = (-value, value) if isinstance(value, int | float) else value
    return checks.interval("hue", pair, low=-0.5, high=0.5)


@dataclass(frozen=True)
class RandomGrayscale(OwnOperation, PictureOperation):
    """With probability p the picture loses its colour; it keeps three channels."""

    p: float = 0.1

    def __post_init__(self) -> None:
        checks.probability("p", self.p)

    def spec(self) -> Spec:
        return "random_grayscale", [self.p]


@dataclass(frozen=True)
class RandomAutocontrast(OwnOperation, PictureOperation):
    """With probability p each channel is stretched: its darkest value becomes 0, its brightest 255."""

    p: float = 0.5

    def __post_init__(self) -> None:
        checks.probability("p", self.p)

    def spec(self) -> Spec:
        return "random_autocontrast", [self.p]


@dataclass(frozen=True)
class GaussianBlur(OwnOperation, PictureOperation):
    """A Gaussian of random sigma (pixels) cut to `kernel_size` (odd; one number or (width, height)), edges mirrored."""

    kernel_size: int | Sequence[int]
    sigma: float | Sequence[float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        self.spec()

    def spec(self) -> Spec:
        sides = checks.size("kernel_size", self.kernel_size)
        if any(side % 2 == 0 or side > 511 for side in sides):
            raise UsageError(f"kernel_size is {self.kernel_size!r}; give odd numbers below 512")
        pair = (self.sigma, self.sigma) if isinstance(self.sigma, int | float) else self.sigma
        return "gaussian_blur", [*sides, *checks.positive_interval("sigma", pair)]


@dataclass(frozen=True)
class GaussianNoise(OwnOperation, PictureOperation):
    """A normal number of its own is added to every value, rounded to 8 bits. mean, sigma: in units of 0 .. 1."""

    mean: float = 0.0
    sigma: float = 0.1
    clip: bool = True

    def __post_init__(self) -> None:
        if not self.clip:
            raise UsageError("GaussianNoise works on 8-bit pixels, which have no room for values that are not clipped")
        self.spec()

    def spec(self) -> Spec:
        if not -1.0 <= self.mean <= 1.0:
            raise UsageError(f"mean is {self.mean}; it lies in -1 .. 1")
        if not 0.0 <= self.sigma <= 1000.0:
            raise UsageError(f"sigma is {self.sigma}; it lies in 0 .. 1000")
        return "gaussian_noise", [self.mean, self.sigma]


@dataclass(frozen=True)
class RandomErasing(OwnOperation, PictureOperation):
    """With probability p a random box is filled: with a number, one number per channel, or "random" normal numbers.

    After `Normalize` the values are in its units, as in torchvision; elsewhere in 0 .. 255.
    """

    p: float = 0.5
    scale: Sequence[float] = (0.02, 0.33)
    ratio: Sequence[float] = (0.3, 3.3)
    value: float | Sequence[float] | Literal["random"] = 0.0

    def __post_init__(self) -> None:
        self.spec()

    def spec(self) -> Spec:
        checks.probability("p", self.p)
        scale = checks.interval("scale", self.scale, low=0.0, high=1.0)
        ratio = checks.positive_interval("ratio", self.ratio)
        if isinstance(self.value, str):
            checks.choice("value", self.value, ("random",))
            value = (1.0, 0.0, 0.0, 0.0)
        else:
            value = (0.0, *checks.colour("value", self.value))
        return "random_erasing", [self.p, *scale, *ratio, *value]


@dataclass(frozen=True)
class RandomRotation(OwnOperation, PictureOperation):
    """Turned counter-clockwise by a random angle in degrees (one number x: [-x, x]), corners filled.

    center: (x, y) in pixels from the upper left corner, None for the middle. The size stays: expand must be False.
    """

    degrees: float | Sequence[float]
    interpolation: Interpolation = "nearest"
    expand: bool = False
    center: Sequence[float] | None = None
    fill: Fill = 0

    def __post_init__(self) -> None:
        if self.expand:
            raise UsageError("RandomRotation keeps the picture's size: expand=True would give batches of unequal sizes")
        self.spec()

    def spec(self) -> Spec:
        if isinstance(self.degrees, int | float) and self.degrees < 0:
            raise UsageError(f"degrees is {self.degrees}; a single number must not be negative")
        pair = (-self.degrees, self.degrees) if isinstance(self.degrees, int | float) else self.degrees
        degrees = checks.interval("degrees", pair, low=-1e9)
        if self.center is not None and len(self.center) != 2:
            raise UsageError(f"center is {self.center!r}; give (x, y)")
        center = (0.0, 0.0, 0.0) if self.center is None else (1.0, float(self.center[0]), float(self.center[1]))
        mode = checks.choice("interpolation", self.interpolation, _INTERPOLATIONS)
        return "random_rotation", [*degrees, mode, *center, *checks.fill_colour(self.fill)]


@dataclass(frozen=True)
class RandAugment(OwnOperation, PictureOperation):
    """`num_ops` random operations out of 14, all at one magnitude (Cubuk et al., arXiv:1909.13719)."""

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: Interpolation = "nearest"
    fill: Fill | None = None

    def __post_init__(self) -> None:
        self.spec()

    def spec(self) -> Spec:
        if not 0 <= self.num_ops <= 1000:
            raise UsageError(f"num_ops is {self.num_ops}; give 0 .. 1000")
        if self.num_magnitude_bins < 2 or not 0 <= self.magnitude < self.num_magnitude_bins:
            raise UsageError(f"magnitude {self.magnitude} is not one of num_magnitude_bins = {self.num_magnitude_bins}")
        numbers = [self.num_ops, self.magnitude, self.num_magnitude_bins]
        mode = checks.choice("interpolation", self.interpolation, _INTERPOLATIONS)
        return "rand_augment", [*numbers, mode, *checks.fill_colour(self.fill)]


@dataclass(frozen=True)
class AutoAugment(OwnOperation, PictureOperation):
    """One of 25 learned pairs of operations, drawn per picture (Cubuk et al., arXiv:1805.09501)."""

    policy: Literal["imagenet", "cifar10", "svhn"] = "imagenet"
    interpolation: Interpolation = "nearest"
    fill: Fill | None = None

    def __post_init__(self) -> None:
        self.spec()

    def spec(self) -> Spec:
        policy = checks.choice("policy", self.policy, _POLICIES)
        mode = checks.choice("interpolation", self.interpolation, _INTERPOLATIONS)
        return "auto_augment", [policy, mode, *checks.fill_colour(self.fill)]


@dataclass(frozen=True)
class Normalize(OwnOperation, PictureOperation):
    """(value / 255 - mean) / std per channel, fused into the last pass; the output is float.

    mean, std: one number per channel, in units of the full range (0 .. 1), as in torchvision.
    """

    mean: Sequence[float]
    std: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or len(self.mean) not in (1, 3):
            raise UsageError("Normalize takes as many means as deviations: 1 or 3")
        if any(not deviation > 0 for deviation in self.std):
            raise UsageError(f"std is {self.std!r}; every deviation must be above 0")

    def spec(self) -> Spec:
        """For the last pass: three means, three deviations."""
        repeats = 3 // len(self.mean)
        return "normalize", [float(value) for value in [*self.mean] * repeats + [*self.std] * repeats]

    @classmethod
    def imagenet(cls) -> Normalize:
        """Of ImageNet's training pictures, the numbers that torchvision's models were trained with."""
        return cls((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

    @classmethod
    def cifar10(cls) -> Normalize:
        """Of the 50,000 training pictures of CIFAR-10, over all pixels."""
        return cls((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))

    @classmethod
    def mnist(cls) -> Normalize:
        """Of the 60,000 training pictures of MNIST."""
        return cls((0.1307,), (0.3081,))

    @classmethod
    def mlperf(cls) -> Normalize:
        """Of MLPerf Training's ResNet-50: 123.68, 116.78, 103.94 subtracted from values 0 .. 255, nothing divided."""
        return cls((123.68 / 255, 116.78 / 255, 103.94 / 255), (1 / 255,) * 3)
