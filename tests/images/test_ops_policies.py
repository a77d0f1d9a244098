"""AutoAugment's tables equal the published ones; RandAugment's and AutoAugment's magnitudes equal torchvision's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image

from core_testing import core_testing
from pillow_oracle import augment, smooth_picture

# torchvision.transforms.v2.AutoAugment: augmentation, probability, bin of 10 (-: none), twice per line.
PUBLISHED = {
    "imagenet": """
        Posterize 0.4 8 Rotate 0.6 9
        Solarize 0.6 5 AutoContrast 0.6 -
        Equalize 0.8 - Equalize 0.6 -
        Posterize 0.6 7 Posterize 0.6 6
        Equalize 0.4 - Solarize 0.2 4
        Equalize 0.4 - Rotate 0.8 8
        Solarize 0.6 3 Equalize 0.6 -
        Posterize 0.8 5 Equalize 1.0 -
        Rotate 0.2 3 Solarize 0.6 8
        Equalize 0.6 - Posterize 0.4 6
        Rotate 0.8 8 Color 0.4 0
        Rotate 0.4 9 Equalize 0.6 -
        Equalize 0.0 - Equalize 0.8 -
        Invert 0.6 - Equalize 1.0 -
        Color 0.6 4 Contrast 1.0 8
        Rotate 0.8 8 Color 1.0 2
        Color 0.8 8 Solarize 0.8 7
        Sharpness 0.4 7 Invert 0.6 -
        ShearX 0.6 5 Equalize 1.0 -
        Color 0.4 0 Equalize 0.6 -
        Equalize 0.4 - Solarize 0.2 4
        Solarize 0.6 5 AutoContrast 0.6 -
        Invert 0.6 - Equalize 1.0 -
        Color 0.6 4 Contrast 1.0 8
        Equalize 0.8 - Equalize 0.6 -
    """,
    "cifar10": """
        Invert 0.1 - Contrast 0.2 6
        Rotate 0.7 2 TranslateX 0.3 9
        Sharpness 0.8 1 Sharpness 0.9 3
        ShearY 0.5 8 TranslateY 0.7 9
        AutoContrast 0.5 - Equalize 0.9 -
        ShearY 0.2 7 Posterize 0.3 7
        Color 0.4 3 Brightness 0.6 7
        Sharpness 0.3 9 Brightness 0.7 9
        Equalize 0.6 - Equalize 0.5 -
        Contrast 0.6 7 Sharpness 0.6 5
        Color 0.7 7 TranslateX 0.5 8
        Equalize 0.3 - AutoContrast 0.4 -
        TranslateY 0.4 3 Sharpness 0.2 6
        Brightness 0.9 6 Color 0.2 8
        Solarize 0.5 2 Invert 0.0 -
        Equalize 0.2 - AutoContrast 0.6 -
        Equalize 0.2 - Equalize 0.6 -
        Color 0.9 9 Equalize 0.6 -
        AutoContrast 0.8 - Solarize 0.2 8
        Brightness 0.1 3 Color 0.7 0
        Solarize 0.4 5 AutoContrast 0.9 -
        TranslateY 0.9 9 TranslateY 0.7 9
        AutoContrast 0.9 - Solarize 0.8 3
        Equalize 0.8 - Invert 0.1 -
        TranslateY 0.7 9 AutoContrast 0.9 -
    """,
    "svhn": """
        ShearX 0.9 4 Invert 0.2 -
        ShearY 0.9 8 Invert 0.7 -
        Equalize 0.6 - Solarize 0.6 6
        Invert 0.9 - Equalize 0.6 -
        Equalize 0.6 - Rotate 0.9 3
        ShearX 0.9 4 AutoContrast 0.8 -
        ShearY 0.9 8 Invert 0.4 -
        ShearY 0.9 5 Solarize 0.2 6
        Invert 0.9 - AutoContrast 0.8 -
        Equalize 0.6 - Rotate 0.9 3
        ShearX 0.9 4 Solarize 0.3 3
        ShearY 0.8 8 Invert 0.7 -
        Equalize 0.9 - TranslateY 0.6 6
        Invert 0.9 - Equalize 0.6 -
        Contrast 0.3 3 Rotate 0.8 4
        Invert 0.8 - TranslateY 0.0 2
        ShearY 0.7 6 Solarize 0.4 8
        Invert 0.6 - Rotate 0.8 4
        ShearY 0.3 7 TranslateX 0.9 3
        ShearX 0.1 6 Invert 0.6 -
        Solarize 0.7 2 TranslateY 0.6 7
        ShearY 0.8 4 Invert 0.8 -
        ShearX 0.7 9 TranslateY 0.8 3
        ShearY 0.8 5 AutoContrast 0.7 -
        ShearX 0.7 2 Invert 0.1 -
    """,
}


@pytest.mark.parametrize(("number", "name"), [(0, "imagenet"), (1, "cifar10"), (2, "svhn")])
def test_learned_policies_equal_the_published_tables(number: int, name: str) -> None:
    lines = [line.split() for line in PUBLISHED[name].strip().splitlines()]
    expected = [
        [
            (augmentation, float(probability), -1 if bin_ == "-" else int(bin_))
            for augmentation, probability, bin_ in (line[:3], line[3:])
        ]
        for line in lines
    ]
    assert len(expected) == 25
    assert [list(pair) for pair in core_testing.learned_policy(number)] == expected


def test_magnitudes_are_those_of_torchvision() -> None:
    """Values of torchvision's _AUGMENTATION_SPACE, written out for a picture of 331 x 662."""
    last = {
        "ShearX": 0.3,
        "ShearY": 0.3,
        "TranslateX": 150.0,
        "TranslateY": 300.0,
        "Rotate": 30.0,
        "Brightness": 0.9,
        "Color": 0.9,
        "Contrast": 0.9,
        "Sharpness": 0.9,
        "Posterize": 4.0,
        "Solarize": 0.0,
    }
    for name, magnitude in last.items():
        assert core_testing.augmentation_magnitude(name, 30, 31, 331, 662) == pytest.approx(magnitude), name
    assert core_testing.augmentation_magnitude("Rotate", 9, 31, 1, 1) == pytest.approx(9.0)
    assert core_testing.augmentation_magnitude("Solarize", 9, 31, 1, 1) == pytest.approx(0.7)
    assert [core_testing.augmentation_magnitude("Posterize", bin_, 10, 1, 1) for bin_ in range(10)] == [
        8,
        8,
        7,
        7,
        6,
        6,
        5,
        5,
        4,
        4,
    ]
    for name in ("Identity", "AutoContrast", "Equalize", "Invert"):
        assert core_testing.augmentation_magnitude(name, 9, 10, 224, 224) == 0.0


@pytest.mark.parametrize("bins", [2, 3, 10, 16, 31, 64, 255])
def test_magnitudes_are_those_of_torch_linspace_to_the_last_bit(bins: int) -> None:
    torch = pytest.importorskip("torch")
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("without fused multiply-add torch's last bit is another")
    ranges = {
        "ShearX": (0.0, 0.3),
        "TranslateX": (0.0, 150.0 / 331.0 * 331),
        "TranslateY": (0.0, 150.0 / 331.0 * 97),
        "Rotate": (0.0, 30.0),
        "Color": (0.0, 0.9),
        "Solarize": (1.0, 0.0),
    }
    for name, (first, last) in ranges.items():
        found = [core_testing.augmentation_magnitude(name, bin_, bins, 331, 97) for bin_ in range(bins)]
        assert found == torch.linspace(first, last, bins).tolist(), name


def test_thresholds_and_shifts_at_a_whole_number_fall_as_in_torchvision() -> None:
    """By torch.linspace (2.13, AVX2) for RandAugment's 31 bins: the least gray level that Solarize turns; pixels."""
    thresholds = [
        math.ceil(255.0 * core_testing.augmentation_magnitude("Solarize", bin_, 31, 1, 1)) for bin_ in range(31)
    ]
    assert thresholds == [
        255,
        247,
        239,
        230,
        222,
        213,
        205,
        196,
        188,
        179,
        170,
        162,
        153,
        145,
        136,
        128,
        120,
        111,
        103,
        94,
        86,
        77,
        69,
        60,
        52,
        43,
        35,
        26,
        18,
        9,
        0,
    ]
    shifts = [int(core_testing.augmentation_magnitude("TranslateX", bin_, 31, 331, 331)) for bin_ in range(31)]
    assert shifts == list(range(0, 151, 5))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", ["ShearX", "ShearY"])
def test_a_bilinear_shear_is_torchvisions_at_every_magnitude(name: str, sign: int) -> None:
    pixels = smooth_picture(60, 80)
    for bin_ in range(31):
        magnitude = sign * core_testing.augmentation_magnitude(name, bin_, 31, 80, 60)
        found = pixels.copy()
        core_testing.augment(found, name, magnitude, bilinear=True)
        assert np.array_equal(found, np.asarray(augment(Image.fromarray(pixels), name, magnitude, "bilinear"))), bin_
