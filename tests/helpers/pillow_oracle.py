"""Pillow as the oracle of the pixel operations: pictures to try, each operation as Pillow does it, and whole plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps

from noise_oracle import add_noise
from ops_plan import Change, Cut, Erase, Flip, Noise, Scale, Step

Pixels = NDArray[np.uint8]
Adjust = Callable[[Image.Image, float], Image.Image]

FILTERS = {name: Image.Resampling[name.upper()] for name in ("nearest", "bilinear", "bicubic", "lanczos", "box")}


def smooth_picture(height: int, width: int) -> Pixels:
    """Waves and noise: neighbouring pixels are alike, all channels differ, all values occur."""
    generator = np.random.default_rng(5)
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / 9.0 + phase) + np.cos(y / 7.0 - phase) for phase in (0.0, 1.0, 2.5)]
    values = 127.5 + 64.0 * np.stack(waves, axis=-1) + generator.normal(0.0, 9.0, (height, width, 3))
    return np.clip(values, 0, 255).astype(np.uint8)


def noise_picture(height: int, width: int) -> Pixels:
    """Every byte independent and uniform."""
    return np.random.default_rng(6).integers(0, 256, (height, width, 3), dtype=np.uint8)


PICTURES = [smooth_picture(61, 83), noise_picture(64, 64), smooth_picture(40, 40) // 3 + 50]
PICTURE_NAMES = ["smooth", "noise", "flat"]


def turn_hue(picture: Image.Image, shift: float) -> Image.Image:
    """Torchvision's adjust_hue on a PIL picture."""
    hue, saturation, value = picture.convert("HSV").split()
    turned = np.asarray(hue) + np.array(int(shift * 255)).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")


JITTERS: dict[str, Adjust] = {
    "Brightness": lambda picture, x: ImageEnhance.Brightness(picture).enhance(x),
    "Contrast": lambda picture, x: ImageEnhance.Contrast(picture).enhance(x),
    "Saturation": lambda picture, x: ImageEnhance.Color(picture).enhance(x),
    "Hue": turn_hue,
}


def augment(
    picture: Image.Image, name: str, x: float, interpolation: str = "nearest", fill: tuple[int, int, int] = (0, 0, 0)
) -> Image.Image:
    """Torchvision's augmentation of this name and magnitude on a PIL picture."""
    angle = math.radians(math.degrees(math.atan(x)))  # torchvision's affine() takes degrees
    matrices = {
        "ShearX": (1, math.tan(angle), 0, 0, 1, 0),
        "ShearY": (1, 0, 0, math.sin(angle) / math.cos(angle), 1, 0),
        "TranslateX": (1, 0, -int(x), 0, 1, 0),
        "TranslateY": (1, 0, 0, 0, 1, -int(x)),
    }
    if name in matrices:
        affine = Image.Transform.AFFINE
        return picture.transform(picture.size, affine, matrices[name], FILTERS[interpolation], fillcolor=fill)
    others: dict[str, Callable[[], Image.Image]] = {
        "Identity": lambda: picture,
        "Rotate": lambda: picture.rotate(x, FILTERS[interpolation], fillcolor=fill),
        "Brightness": lambda: ImageEnhance.Brightness(picture).enhance(1.0 + x),
        "Color": lambda: ImageEnhance.Color(picture).enhance(1.0 + x),
        "Contrast": lambda: ImageEnhance.Contrast(picture).enhance(1.0 + x),
        "Sharpness": lambda: ImageEnhance.Sharpness(picture).enhance(1.0 + x),
        "Posterize": lambda: ImageOps.posterize(picture, int(x)),
        "Solarize": lambda: ImageOps.solarize(picture, 255.0 * x),  # type: ignore[arg-type]
        "AutoContrast": lambda: ImageOps.autocontrast(picture),
        "Equalize": lambda: ImageOps.equalize(picture),
        "Invert": lambda: ImageOps.invert(picture),
    }
    return others[name]()


def carry_out(steps: Sequence[Step], pixels: Pixels) -> Pixels:
    """A plan on a picture, by Pillow and numpy: policies and rotations with the nearest pixel and black corners."""
    for step in steps:
        pixels = _carry_out(step, pixels)
    return np.ascontiguousarray(pixels)


def _carry_out(step: Step, pixels: Pixels) -> Pixels:
    if isinstance(step, Scale):
        box = (step.left, step.top, step.left + step.width, step.top + step.height)
        size = (step.to_width, step.to_height)
        return np.asarray(Image.fromarray(pixels).resize(size, FILTERS[step.interpolation], box=box))
    if isinstance(step, Cut):
        return cut(step, pixels)
    if isinstance(step, Flip):
        return pixels[:, ::-1] if step.is_horizontal else pixels[::-1]
    if isinstance(step, Erase):
        erased = pixels.copy()
        erased[step.top : step.top + step.height, step.left : step.left + step.width] = step.value  # type: ignore[assignment]  # no test has noise here
        return erased
    if isinstance(step, Noise):
        return add_noise(step, pixels)
    return np.asarray(_change(step, Image.fromarray(np.ascontiguousarray(pixels))))


def _change(step: Change, picture: Image.Image) -> Image.Image:
    if step.name == "Grayscale":
        return picture.convert("L").convert("RGB")
    if step.name == "Rotation":
        return picture.rotate(step.amount, FILTERS["nearest"], fillcolor=(0, 0, 0))
    if step.name.startswith("augment."):
        return augment(picture, step.name.removeprefix("augment."), step.amount)
    return JITTERS[step.name](picture, step.amount)


Box = tuple[float, float, float, float]


def columns_first(pixels: Pixels, box: Box, width: int, height: int, interpolation: str) -> Pixels:
    """Pillow's resize of the box (x, y, width, height) in the order of up to version 12, which is the core's."""
    x, y, box_width, box_height = box
    rows, kind = len(pixels), FILTERS[interpolation]
    columns = Image.fromarray(pixels).resize((width, rows), kind, box=(x, 0, x + box_width, rows))
    return np.asarray(columns.resize((width, height), kind, box=(0, y, width, y + box_height)))


def cut(step: Cut, pixels: Pixels) -> Pixels:
    """The box of the picture, padded by numpy where it reaches outside."""
    height, width = pixels.shape[:2]
    top, left = max(0, -step.top), max(0, -step.left)
    pad = ((top, max(0, step.top + step.height - height)), (left, max(0, step.left + step.width - width)), (0, 0))
    if step.padding_mode == "constant":
        padded = np.empty([size + sum(ends) for size, ends in zip(pixels.shape, pad)], np.uint8)
        padded[...] = step.fill
        padded[top : top + height, left : left + width] = pixels
    else:
        padded = np.pad(pixels, pad, mode=step.padding_mode)  # type: ignore[call-overload]
    return padded[step.top + top :, step.left + left :][: step.height, : step.width]
