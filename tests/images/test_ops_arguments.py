"""The operations' constructors: torchvision's defaults and forms of arguments, and what they refuse."""

from __future__ import annotations

import dataclasses
import enum
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import trainload as tl

# Defaults of torchvision.transforms.v2, written out.
DEFAULTS: list[tuple[Any, dict[str, Any]]] = [
    (tl.RandomResizedCrop(224), {"scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3), "interpolation": "bilinear"}),
    (tl.Resize(256), {"max_size": None, "antialias": True}),
    (tl.RandomCrop(32), {"padding": None, "pad_if_needed": False, "fill": 0, "padding_mode": "constant"}),
    (tl.RandomHorizontalFlip(), {"p": 0.5}),
    (tl.RandomVerticalFlip(), {"p": 0.5}),
    (tl.ColorJitter(), {"brightness": None, "contrast": None, "saturation": None, "hue": None}),
    (tl.RandomGrayscale(), {"p": 0.1}),
    (tl.GaussianBlur(3), {"sigma": (0.1, 2.0)}),
    (tl.RandomScale(), {"interpolation": "bilinear", "antialias": True}),
    (tl.Pad(1), {"fill": 0, "padding_mode": "constant"}),
    (tl.RandomAutocontrast(), {"p": 0.5}),
    (tl.GaussianNoise(), {"mean": 0.0, "sigma": 0.1, "clip": True}),
    (tl.RandomErasing(), {"p": 0.5, "scale": (0.02, 0.33), "ratio": (0.3, 3.3), "value": 0.0}),
    (tl.RandomRotation(10), {"interpolation": "nearest", "expand": False, "center": None, "fill": 0}),
    (tl.RandAugment(), {"num_ops": 2, "magnitude": 9, "num_magnitude_bins": 31, "interpolation": "nearest"}),
    (tl.AutoAugment(), {"policy": "imagenet", "interpolation": "nearest", "fill": None}),
    (tl.MixUp(), {"alpha": 1.0, "num_classes": None}),
    (tl.CutMix(), {"alpha": 1.0, "num_classes": None}),
]


@pytest.mark.parametrize(("op", "defaults"), DEFAULTS, ids=lambda value: type(value).__name__)
def test_defaults_are_those_of_torchvision(op: Any, defaults: dict[str, Any]) -> None:
    assert {name: getattr(op, name) for name in defaults} == defaults


@pytest.mark.parametrize(("op", "defaults"), DEFAULTS, ids=lambda value: type(value).__name__)
def test_operations_are_frozen_equal_and_pickle(op: Any, defaults: dict[str, Any]) -> None:
    assert pickle.loads(pickle.dumps(op)) == op
    with pytest.raises(dataclasses.FrozenInstanceError):
        op.p = 1.0


@pytest.mark.parametrize(
    ("op", "kind", "numbers"),
    [
        (tl.RandomResizedCrop((3, 4)), "random_resized_crop", [3, 4, 0.08, 1.0, 3 / 4, 4 / 3, 0]),
        (tl.Resize(256, max_size=400), "resize", [256, 0, 400, 0]),
        (tl.Resize((20, 30)), "resize", [20, 30, 0, 0]),
        (tl.Resize([20]), "resize", [20, 0, 0, 0]),
        (tl.RandomResizedCrop(8, interpolation="bicubic"), "random_resized_crop", [8, 8, 0.08, 1.0, 3 / 4, 4 / 3, 1]),
        (tl.Resize(8, "lanczos", 9), "resize", [8, 0, 9, 2]),
        (tl.Resize((8, 9), "nearest", antialias=False), "resize", [8, 9, 0, 4]),
        (tl.RandomScale((0.5, 2), "box"), "random_scale", [0.5, 2, 3, 0]),
        (tl.RandomScale((0.5, 2), each_side=True), "random_scale", [0.5, 2, 0, 1]),
        (tl.Pad(3), "pad", [3, 3, 3, 3, 0, 0, 0, 0]),
        (tl.Pad((1, 2), (5, 6, 7)), "pad", [1, 2, 1, 2, 0, 5, 6, 7]),
        (tl.Pad((1, 2, 3, 4), padding_mode="symmetric"), "pad", [1, 2, 3, 4, 3, 0, 0, 0]),
        (tl.RandomAutocontrast(), "random_autocontrast", [0.5]),
        (tl.GaussianNoise(0.2, 0.3), "gaussian_noise", [0.2, 0.3]),
        (tl.CenterCrop([7]), "center_crop", [7, 7]),
        (tl.RandomCrop(32, 4), "random_crop", [32, 32, 4, 4, 4, 4, 0, 0, 0, 0, 0]),
        (tl.RandomCrop(32, (1, 2), padding_mode="edge"), "random_crop", [32, 32, 1, 2, 1, 2, 0, 1, 0, 0, 0]),
        (tl.RandomCrop(9, (1, 2, 3, 4), True, (5, 6, 7)), "random_crop", [9, 9, 1, 2, 3, 4, 1, 0, 5, 6, 7]),
        (tl.ColorJitter(0.4, (0.5, 0.6), 2.0, 0.1), "color_jitter", [0.6, 1.4, 0.5, 0.6, 0, 3, -0.1, 0.1]),
        (tl.ColorJitter(), "color_jitter", [1, 1, 1, 1, 1, 1, 0, 0]),
        (tl.GaussianBlur((3, 5), 1.5), "gaussian_blur", [3, 5, 1.5, 1.5]),
        (tl.RandomErasing(value=(1, 2, 3)), "random_erasing", [0.5, 0.02, 0.33, 0.3, 3.3, 0, 1, 2, 3]),
        (tl.RandomErasing(value="random"), "random_erasing", [0.5, 0.02, 0.33, 0.3, 3.3, 1, 0, 0, 0]),
        (tl.RandomRotation(30), "random_rotation", [-30, 30, 0, 0, 0, 0, 0, 0, 0]),
        (tl.RandomRotation((5, 9), "bilinear", center=(1, 2), fill=3), "random_rotation", [5, 9, 1, 1, 1, 2, 3, 3, 3]),
        (tl.RandAugment(3, 5, 10, fill=(1, 2, 3)), "rand_augment", [3, 5, 10, 0, 1, 2, 3]),
        (tl.AutoAugment("svhn", "bilinear"), "auto_augment", [2, 1, 0, 0, 0]),
    ],
    ids=repr,
)
def test_specs_say_the_numbers_of_the_core(op: tl.PictureOperation, kind: str, numbers: list[float]) -> None:
    assert op.spec()[0] == kind
    assert op.spec()[1] == pytest.approx(numbers)


@pytest.mark.parametrize(
    "make",
    [
        lambda: tl.RandomResizedCrop(0),
        lambda: tl.RandomResizedCrop((1, 2, 3)),
        lambda: tl.RandomResizedCrop(224, scale=(0.5, 0.1)),
        lambda: tl.RandomResizedCrop(224, scale=(0.0, 1.0)),
        lambda: tl.RandomResizedCrop(224, ratio=(-1.0, 1.0)),
        lambda: tl.RandomResizedCrop(224, interpolation="hamming"),  # type: ignore[arg-type]
        lambda: tl.RandomResizedCrop(224, antialias=False),
        lambda: tl.RandomResizedCrop(224, interpolation="bicubic", antialias=False),
        lambda: tl.Resize(224, "cubic"),  # type: ignore[arg-type]
        lambda: tl.RandomScale((0.0, 1.0)),
        lambda: tl.RandomScale((1.2, 0.8)),
        lambda: tl.RandomScale(0.5),  # type: ignore[arg-type]
        lambda: tl.RandomScale(interpolation="hamming"),  # type: ignore[arg-type]
        lambda: tl.Pad(-1),
        lambda: tl.Pad((1, 2, 3)),
        lambda: tl.Pad(1, fill=256),
        lambda: tl.Pad(1, padding_mode="wrap"),  # type: ignore[arg-type]
        lambda: tl.RandomAutocontrast(-0.1),
        lambda: tl.GaussianNoise(sigma=-0.1),
        lambda: tl.GaussianNoise(sigma=float("nan")),
        lambda: tl.GaussianNoise(mean=1.5),
        lambda: tl.GaussianNoise(clip=False),
        lambda: tl.RandomResizedCrop(224, scale=0.5),  # type: ignore[arg-type]
        lambda: tl.RandomCrop(32, fill="red"),  # type: ignore[arg-type]
        lambda: tl.Resize(224.5),  # type: ignore[arg-type]
        lambda: tl.Resize((224, 224), max_size=300),
        lambda: tl.Resize(224, max_size=224),
        lambda: tl.CenterCrop(True),
        lambda: tl.RandomCrop(32, padding=-1),
        lambda: tl.RandomCrop(32, padding=(1, 2, 3)),
        lambda: tl.RandomCrop(32, fill=256),
        lambda: tl.RandomCrop(32, fill=(1, 2)),
        lambda: tl.RandomCrop(32, padding_mode="wrap"),  # type: ignore[arg-type]
        lambda: tl.RandomHorizontalFlip(1.5),
        lambda: tl.RandomVerticalFlip(-0.1),
        lambda: tl.RandomGrayscale(float("nan")),
        lambda: tl.ColorJitter(brightness=-0.1),
        lambda: tl.ColorJitter(contrast=(-0.1, 1.0)),
        lambda: tl.ColorJitter(saturation=(2.0, 1.0)),
        lambda: tl.ColorJitter(hue=0.6),
        lambda: tl.ColorJitter(hue=(-0.6, 0.0)),
        lambda: tl.GaussianBlur(4),
        lambda: tl.GaussianBlur(513),
        lambda: tl.GaussianBlur(3, sigma=0.0),
        lambda: tl.GaussianBlur(3, sigma=(2.0, 1.0)),
        lambda: tl.RandomErasing(2.0),
        lambda: tl.RandomErasing(scale=(0.1, 1.1)),
        lambda: tl.RandomErasing(value="noise"),  # type: ignore[arg-type]
        lambda: tl.RandomErasing(value=(1, 2)),
        lambda: tl.RandomRotation(-5),
        lambda: tl.RandomRotation(5, expand=True),
        lambda: tl.RandomRotation(5, center=(1, 2, 3)),
        lambda: tl.RandomRotation(5, "bicubic"),  # type: ignore[arg-type]
        lambda: tl.RandAugment(magnitude=31),
        lambda: tl.RandAugment(num_ops=-1),
        lambda: tl.RandAugment(num_magnitude_bins=1, magnitude=0),
        lambda: tl.AutoAugment("mnist"),  # type: ignore[arg-type]
        lambda: tl.Normalize((0.5,), (0.5, 0.5)),
        lambda: tl.Normalize((0.5,) * 3, (0.5, 0.0, 0.5)),
        lambda: tl.MixUp(alpha=0.0),
        lambda: tl.CutMix(num_classes=0),
    ],
)
def test_arguments_out_of_range_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(tl.UsageError):
        make()


def test_enums_of_torchvision_stand_for_their_values() -> None:
    class InterpolationMode(enum.Enum):
        BILINEAR = "bilinear"
        NEAREST = "nearest"

    class AutoAugmentPolicy(enum.Enum):
        SVHN = "svhn"

    bilinear: Any = InterpolationMode.BILINEAR
    policy: Any = AutoAugmentPolicy.SVHN
    assert tl.RandomRotation(5, bilinear).spec() == tl.RandomRotation(5, "bilinear").spec()
    assert tl.AutoAugment(policy, bilinear).spec() == tl.AutoAugment("svhn", "bilinear").spec()
    nearest: Any = InterpolationMode.NEAREST
    assert tl.Resize(5, bilinear).spec() == tl.Resize(5).spec()
    assert tl.Resize(5, nearest).spec() == tl.Resize(5, "nearest").spec()


def test_normalize_presets() -> None:
    assert tl.Normalize.imagenet() == tl.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert tl.Normalize.cifar10() == tl.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
    assert tl.Normalize.mnist() == tl.Normalize((0.1307,), (0.3081,))
    assert tl.Normalize.mlperf() == tl.Normalize(
        (123.68 / 255, 116.78 / 255, 103.94 / 255), (1 / 255, 1 / 255, 1 / 255)
    )
