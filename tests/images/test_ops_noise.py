"""GaussianNoise and RandomAutocontrast: against numpy and Pillow bit for bit, and as random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image, ImageOps
from scipy.stats import kstest

import trainload as tl
from noise_oracle import add_noise, exact_normals, normals
from ops_plan import Noise, plan_sample
from pillow_oracle import PICTURE_NAMES, PICTURES, Pixels, carry_out, noise_picture
from trainload import _core
from trainload.images.ops.split import split_ops

every_picture = pytest.mark.parametrize("pixels", PICTURES, ids=PICTURE_NAMES)


def made(
    chosen: Sequence[object], pixels: Pixels, sample: int, out: str = "uint8", layout: str = "NHWC"
) -> NDArray[Any]:
    """The picture by a whole pipeline, channels last."""
    split = split_ops(chosen)
    height, width = pixels.shape[:2]
    pipeline = _core.Pipeline(split.specs(out), width, height, out, layout, split.mean, split.std, "off")  # type: ignore[arg-type]
    batch = np.empty((1, *((3, height, width) if layout == "NCHW" else (height, width, 3))), out)
    pipeline.run_pixels(
        _core.Scratch(), pixels[None], np.zeros(1, np.uint64), np.array([sample], np.uint64), 7, 1, batch
    )
    return batch[0].transpose(1, 2, 0) if layout == "NCHW" else batch[0]


def planned(chosen: Sequence[object], pixels: Pixels, sample: int) -> list[Any]:
    height, width = pixels.shape[:2]
    return plan_sample(split_ops(chosen).core, width=width, height=height, seed=7, epoch=1, sample=sample)


@every_picture
@pytest.mark.parametrize(("mean", "sigma"), [(0.0, 0.1), (0.2, 0.02), (-0.1, 1.0), (0.0, 0.003), (0.1, 0.0)])
def test_noise_is_the_oracles_bit_for_bit(pixels: Pixels, mean: float, sigma: float) -> None:
    op = tl.GaussianNoise(mean, sigma)
    for sample in range(5):
        (step,) = planned([op], pixels, sample)
        np.testing.assert_array_equal(made([op], pixels, sample), add_noise(step, pixels))


@given(st.integers(1, 400), st.integers(1, 9), st.integers(0, 2**64 - 1))
@settings(max_examples=60, deadline=None)
def test_noise_of_any_size_is_the_oracles(width: int, height: int, sample: int) -> None:
    pixels = noise_picture(height, width)
    (step,) = planned([tl.GaussianNoise()], pixels, sample)
    np.testing.assert_array_equal(made([tl.GaussianNoise()], pixels, sample), add_noise(step, pixels))


def test_the_numbers_are_the_exact_formulas_within_single_precision() -> None:
    for key in ((0, 0), (1, 2), (0xFFFFFFFF, 0x12345678)):
        assert np.abs(normals(key, 300, 333) - exact_normals(key, 300, 333)).max() < 3e-6


def test_noise_is_the_exact_formula_rounded_but_for_values_at_a_half() -> None:
    pixels = noise_picture(300, 400)
    (step,) = planned([tl.GaussianNoise()], pixels, 3)
    exact = np.rint(np.clip(pixels + 255 * 0.1 * exact_normals(step.key, 300, 400), 0, 255))
    difference = np.abs(made([tl.GaussianNoise()], pixels, 3) - exact)
    assert difference.max() <= 1 and (difference > 0).mean() < 1e-4


def test_the_numbers_are_normal_and_independent() -> None:
    numbers = normals((5, 6), 400, 500).astype(np.float64)
    assert kstest(numbers.ravel(), "norm").pvalue > 0.001
    assert kstest((numbers**2).sum(axis=2).ravel(), "chi2", args=(3,)).pvalue > 0.001
    flat = numbers.ravel()
    for distance in (1, 3, 375, 750, 1125, 1500):  # neighbours; the numbers of one block; the row above
        assert abs(np.corrcoef(flat[distance:], flat[:-distance])[0, 1]) < 4 / np.sqrt(len(flat))
    assert np.abs(numbers).max() > 4.2


def test_pixels_get_the_mean_and_the_deviation() -> None:
    gray = np.full((200, 200, 3), 128, np.uint8)
    difference = made([tl.GaussianNoise(0.05, 0.1)], gray, 0).astype(float) - 128
    assert abs(difference.mean() - 0.05 * 255) < 0.3 and abs(difference.std() - 0.1 * 255) < 0.3
    assert made([tl.GaussianNoise(0.0, 100.0)], gray, 0).min() == 0


def test_a_mean_without_noise_rounds_halves_to_even() -> None:
    pixels = np.arange(256, dtype=np.uint8).repeat(3).reshape(1, 256, 3)
    expected = np.rint(np.clip(np.arange(256) + 127.5, 0, 255))
    np.testing.assert_array_equal(made([tl.GaussianNoise(0.5, 0.0)], pixels, 0)[0, :, 0], expected)


def test_every_sample_epoch_draw_and_place_in_the_list_has_noise_of_its_own() -> None:
    def key(sample: int = 1, epoch: int = 2, draw: int = 0, position: int = 3, seed: int = 4) -> tuple[int, int]:
        ops = [(position, tl.GaussianNoise())]
        (step,) = plan_sample(ops, width=9, height=9, seed=seed, epoch=epoch, sample=sample, draw=draw)
        assert isinstance(step, Noise)
        return step.key

    keys = {key(), key(sample=2), key(epoch=3), key(draw=1), key(position=4), key(seed=5)}
    assert len(keys) == 6 and key() == key()


FLIP, UPSIDE_DOWN, NOISE = tl.RandomHorizontalFlip(), tl.RandomVerticalFlip(), tl.GaussianNoise()
LISTS = [
    [FLIP, NOISE],
    [NOISE, FLIP],
    [UPSIDE_DOWN, NOISE, FLIP, NOISE],
    [tl.ColorJitter(0.4), NOISE, tl.RandomGrayscale(0.5)],
    [tl.RandomAutocontrast(), FLIP, tl.ColorJitter(0.4), UPSIDE_DOWN, tl.RandomAutocontrast()],
]


@every_picture
@pytest.mark.parametrize("chosen", LISTS, ids=repr)
def test_a_list_is_its_plan_bit_for_bit(pixels: Pixels, chosen: list[Any]) -> None:
    for sample in range(8):
        np.testing.assert_array_equal(made(chosen, pixels, sample), carry_out(planned(chosen, pixels, sample), pixels))


@every_picture
def test_every_output_and_layout_has_the_same_noise(pixels: Pixels) -> None:
    chosen = [FLIP, NOISE, tl.RandomAutocontrast()]
    wanted = made(chosen, pixels, 1)
    for layout in ("NHWC", "NCHW"):
        floats = made([*chosen, tl.Normalize.mlperf()], pixels, 1, "float32", layout)
        np.testing.assert_array_equal(floats, wanted - np.array([123.68, 116.78, 103.94], np.float32))


@every_picture
def test_autocontrast_is_pillows(pixels: Pixels) -> None:
    wanted = np.asarray(ImageOps.autocontrast(Image.fromarray(pixels)))
    np.testing.assert_array_equal(made([tl.RandomAutocontrast(1.0)], pixels, 0), wanted)
    np.testing.assert_array_equal(made([tl.RandomAutocontrast(0.0)], pixels, 0), pixels)


@every_picture
def test_autocontrast_is_within_one_of_torchvisions_formula_for_tensors(pixels: Pixels) -> None:
    values = pixels.astype(np.float32)
    low, high = values.min(axis=(0, 1)), values.max(axis=(0, 1))
    stretched = np.clip((values - low) / ((high - low) * np.float32(1 / 255)), 0, 255).astype(np.uint8)
    difference = made([tl.RandomAutocontrast(1.0)], pixels, 0).astype(int) - stretched
    assert np.abs(difference).max() <= 1


def test_a_channel_of_one_value_stays_as_it_is() -> None:
    pixels = noise_picture(8, 9)
    pixels[..., 1] = 77
    assert (made([tl.RandomAutocontrast(1.0)], pixels, 0)[..., 1] == 77).all()


def test_autocontrast_happens_with_its_probability() -> None:
    pixels = PICTURES[2]
    happened = sum(bool(planned([tl.RandomAutocontrast(0.3)], pixels, sample)) for sample in range(1000))
    assert 250 < happened < 350


def test_mlperf_subtracts_its_means_from_values_up_to_255() -> None:
    split = split_ops([tl.Normalize.mlperf()])
    values = (np.arange(256)[:, None] / 255 - np.array(split.mean)) / np.array(split.std)
    assert np.abs(values - (np.arange(256)[:, None] - np.array([123.68, 116.78, 103.94]))).max() < 1e-10
