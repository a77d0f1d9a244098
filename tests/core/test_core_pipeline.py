"""The whole pipeline equals the plan (images/ops/plan.py) carried out step by step with Pillow and NumPy."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from core_testing import KERNEL_NAMES, core_testing
from jpeg_writer import make_jpeg
from ops_plan import Cut, Erase, Flip, Scale, plan_sample
from picture_folders import some_of
from trainload import _core
from trainload.errors import UsageError
from trainload.images.decode import PictureDecoder
from trainload.images.ops import operations as ops
from trainload.images.ops.split import split_ops

SIZES = [(131, 97), (64, 150), (40, 40), (200, 33), (97, 131), (17, 11)]
PICTURES = [
    make_jpeg(w, h, sampling, restart_interval=interval, seed=w)
    for (w, h), sampling, interval in zip(
        SIZES, ["4:2:0", "4:4:4", "4:2:2", "4:4:0", "gray", "4:2:0"], [9, 0, 2, 25, 17, 1], strict=True
    )
]
CROPS: dict[str, list[Any]] = {
    "random resized crop": [ops.RandomResizedCrop((40, 56))],
    "random resized crop of extreme shapes": [ops.RandomResizedCrop(32, scale=(0.5, 1.0), ratio=(5.0, 6.0))],
    "resize": [ops.Resize((70, 35))],
    "shorter side and centre": [ops.Resize(48), ops.CenterCrop(40)],
    "shorter side within a maximum and centre": [ops.Resize(48, max_size=60), ops.CenterCrop((40, 44))],
    "centre of a smaller picture": [ops.CenterCrop(120)],
    "random crop with padding": [ops.RandomCrop(60, padding=8, pad_if_needed=True, fill=(9, 80, 200))],
    "random crop with mirrored padding": [ops.Resize(32), ops.RandomCrop(32, padding=6, padding_mode="reflect")],
    "random crop with repeated padding": [ops.Resize(32), ops.RandomCrop(32, padding=6, padding_mode="symmetric")],
    "random crop with edges": [ops.RandomCrop(30, padding=(3, 20), padding_mode="edge")],
    "crop, then resize": [ops.RandomCrop(11), ops.Resize((24, 30))],
    "padded crop, then resize": [ops.CenterCrop(64), ops.RandomResizedCrop(24)],
    "resize twice": [ops.Resize(48), ops.RandomResizedCrop(24), ops.CenterCrop(20)],
}
FLIPS = [ops.RandomHorizontalFlip(), ops.RandomVerticalFlip()]


class Slice:
    """Pictures in one arena with gaps between them."""

    def __init__(self, pictures: list[bytes]) -> None:
        self.arena = np.frombuffer(b"??".join(pictures) + b"?", np.uint8)
        self.sizes = np.array([len(picture) for picture in pictures], np.uint64)
        self.offsets = (np.cumsum(self.sizes + np.uint64(2)) - self.sizes - np.uint64(2)).astype(np.uint64)
        self.ids = np.arange(100, 100 + len(pictures), dtype=np.uint64)

    def run(
        self, decoder: PictureDecoder, scratch: _core.Scratch | None = None, seed: int = 7, epoch: int = 3
    ) -> tuple[NDArray[Any], NDArray[np.int32], dict[int, str]]:
        images = np.zeros((len(self.ids), *decoder.shape), decoder.dtype)
        codes = np.zeros(len(self.ids), np.int32)
        reasons = decoder.run(
            scratch or decoder.new_scratch(), self.arena, self.offsets, self.sizes, self.ids, seed, epoch, images, codes
        )
        return images, codes, reasons


def resized(pixels: NDArray[np.uint8], step: Scale) -> NDArray[np.uint8]:
    """Pillow's two passes in the core's order."""
    right, bottom = step.left + step.width, step.top + step.height
    bilinear = Image.Resampling.BILINEAR
    columns = Image.fromarray(pixels).resize(
        (step.to_width, len(pixels)), bilinear, box=(step.left, 0, right, len(pixels))
    )
    rows = columns.resize((step.to_width, step.to_height), bilinear, box=(0, step.top, step.to_width, bottom))
    return np.asarray(rows)


def cut(pixels: NDArray[np.uint8], step: Cut) -> NDArray[np.uint8]:
    height, width = pixels.shape[:2]
    pads = [
        (max(0, -step.top), max(0, step.top + step.height - height)),
        (max(0, -step.left), max(0, step.left + step.width - width)),
        (0, 0),
    ]
    if step.padding_mode == "constant":
        padded = np.empty((height + sum(pads[0]), width + sum(pads[1]), 3), np.uint8)
        padded[:] = step.fill
        padded[pads[0][0] :, pads[1][0] :][:height, :width] = pixels
    else:
        padded = np.pad(pixels, pads, mode=step.padding_mode)  # type: ignore[call-overload]
    top, left = step.top + pads[0][0], step.left + pads[1][0]
    return padded[top : top + step.height, left : left + step.width]


def by_plan(
    chosen: list[Any], encoded: bytes, sample: int, seed: int = 7, epoch: int = 3, draw: int = 0
) -> NDArray[np.float64]:
    """The picture after its steps; erased boxes have the values of the steps."""
    pixels = np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))
    height, width = pixels.shape[:2]
    core = split_ops(chosen).core
    for step in plan_sample(core, width=width, height=height, seed=seed, epoch=epoch, sample=sample, draw=draw):
        if isinstance(step, Scale):
            pixels = resized(pixels, step)
        elif isinstance(step, Cut):
            pixels = cut(pixels, step)
        elif isinstance(step, Flip):
            pixels = pixels[:, ::-1] if step.is_horizontal else pixels[::-1]
        elif isinstance(step, Erase):
            pixels = pixels.copy()
            pixels[step.top : step.top + step.height, step.left : step.left + step.width] = step.value
    return pixels


@pytest.mark.parametrize("name", CROPS)
@pytest.mark.parametrize("flips", [[], FLIPS], ids=["no flips", "flips"])
def test_every_crop_is_what_the_plan_says(name: str, flips: list[Any]) -> None:
    chosen = [*CROPS[name], *flips]
    crops_too_small = any(isinstance(op, ops.RandomCrop) and not op.pad_if_needed for op in chosen)
    pictures = PICTURES[:3] if crops_too_small else PICTURES
    part = Slice(pictures)
    decoder = PictureDecoder(chosen)
    for epoch in range(6):
        images, codes, reasons = part.run(decoder, epoch=epoch)
        assert not codes.any(), reasons
        for image, encoded, sample in zip(images, pictures, part.ids.tolist(), strict=True):
            assert np.array_equal(image, by_plan(chosen, encoded, sample, epoch=epoch))


def test_erased_boxes_move_with_the_flips_that_follow() -> None:
    chosen = [ops.Resize((50, 60)), FLIPS[0], ops.RandomErasing(0.9, value=(1, 2, 3)), *FLIPS, ops.RandomErasing(0.5)]
    part = Slice(PICTURES)
    for epoch in range(8):
        images, _, _ = part.run(PictureDecoder(chosen), epoch=epoch)
        for image, encoded, sample in zip(images, PICTURES, part.ids.tolist(), strict=True):
            assert np.array_equal(image, by_plan(chosen, encoded, sample, epoch=epoch))


@pytest.mark.parametrize("kernels", KERNEL_NAMES)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "NHWC4"])
@pytest.mark.parametrize("out", ["uint8", "float32", "float16"])
def test_every_output_is_the_same_numbers_with_every_instruction_set(out: str, layout: str, kernels: str) -> None:
    crops = [ops.RandomResizedCrop((41, 59)), *FLIPS]
    norm = ops.Normalize.imagenet()
    decoder = PictureDecoder(crops if out == "uint8" else [*crops, norm], out=out, layout=layout)
    part = Slice(PICTURES)
    images, _, _ = part.run(decoder, core_testing.new_scratch(kernels))
    pixels, _, _ = part.run(PictureDecoder(crops))
    if out != "uint8":
        scale = (1 / (255 * np.array(norm.std))).astype(np.float32)
        offset = (-np.array(norm.mean) / np.array(norm.std)).astype(np.float32)
        pixels = (pixels.astype(np.float32) * scale + offset).astype(out)
    if layout == "NHWC4":
        assert not images[..., 3].any()
        images = images[..., :3]
    assert np.array_equal(images.transpose(0, 2, 3, 1) if layout == "NCHW" else images, pixels)


def test_normalised_floats_are_torchvisions_within_rounding() -> None:
    norm = ops.Normalize.imagenet()
    part = Slice(PICTURES)
    images, _, _ = part.run(PictureDecoder([ops.Resize((32, 32)), norm], layout="NHWC"))
    pixels, _, _ = part.run(PictureDecoder([ops.Resize((32, 32))]))
    expected = (pixels / 255.0 - np.array(norm.mean)) / np.array(norm.std)
    assert np.abs(images - expected).max() < 1e-6


def test_noise_fills_the_erased_box_with_normal_numbers() -> None:
    decoder = PictureDecoder(
        [ops.Resize((64, 64)), ops.RandomErasing(1.0, scale=(0.3, 0.3), value="random")], out="float32"
    )
    plain, _, _ = Slice(PICTURES).run(PictureDecoder([ops.Resize((64, 64))], out="float32", layout="NCHW"))
    images, _, _ = Slice(PICTURES).run(decoder)
    noise = images[images != plain]
    assert noise.size > 0.25 * images.size
    assert abs(noise.mean()) < 0.02
    assert abs(noise.std() - 1.0) < 0.02


def test_a_picture_does_not_depend_on_its_slice_its_thread_or_what_came_before() -> None:
    decoder = PictureDecoder([ops.RandomResizedCrop(48), *FLIPS, ops.Normalize.imagenet()])
    part = Slice(PICTURES * 8)
    part.ids = np.arange(len(part.ids), dtype=np.uint64)
    whole, _, _ = part.run(decoder)

    def one(i: int) -> NDArray[Any]:
        images, codes = np.zeros((1, *decoder.shape), decoder.dtype), np.zeros(1, np.int32)
        at = slice(i, i + 1)
        decoder.run(
            decoder.new_scratch(), part.arena, part.offsets[at], part.sizes[at], part.ids[at], 7, 3, images, codes
        )
        return images[0]

    with ThreadPoolExecutor(4) as pool:
        assert all(map(np.array_equal, whole, pool.map(one, range(len(part.ids)))))


def test_half_size_decoding_is_close_and_only_where_the_box_is_twice_as_large(photos: Path) -> None:
    files = some_of(photos, 97)
    part = Slice([path.read_bytes() for path in files])
    exact, _, _ = part.run(PictureDecoder([ops.Resize((64, 64))]))
    scaled, _, _ = part.run(PictureDecoder([ops.Resize((64, 64))], dct_scale="auto"))
    difference = np.abs(exact.astype(int) - scaled)
    assert 0 < difference.mean() < 1.5
    large = [ops.Resize((350, 350))]
    exact, _, _ = part.run(PictureDecoder(large))
    scaled, _, _ = part.run(PictureDecoder(large, dct_scale="auto"))
    small = [i for i, path in enumerate(files) if min(Image.open(path).size) < 700]
    assert np.array_equal(exact[small], scaled[small])


def test_pictures_in_memory_get_the_same_pixels_as_encoded_ones() -> None:
    chosen = [ops.RandomResizedCrop(48), *FLIPS]
    decoder = PictureDecoder(chosen, array_shape=(97, 131, 3))
    decoded = np.asarray(Image.open(io.BytesIO(PICTURES[0])).convert("RGB"))
    images = np.zeros((1, *decoder.shape), np.uint8)
    decoder.run_pixels(decoder.new_scratch(), np.stack([decoded] * 3), np.array([2], np.uint64), 7, 3, images)
    assert np.array_equal(images[0], by_plan(chosen, PICTURES[0], 2))


@pytest.mark.parametrize(("layout", "shape"), [("NHWC", (20, 28, 1)), ("NCHW", (1, 20, 28)), ("NHWC4", (20, 28, 4))])
def test_gray_arrays_stay_gray(layout: str, shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 20, 28, 1), np.uint8)
    decoder = PictureDecoder([], layout=layout, array_shape=(20, 28, 1))
    assert decoder.shape == shape
    images = np.zeros((3, *shape), np.uint8)
    rows = np.array([4, 0, 1], np.uint64)
    decoder.run_pixels(decoder.new_scratch(), pixels, rows, 0, 0, images)
    first = images[:, :1].transpose(0, 2, 3, 1) if layout == "NCHW" else images[..., :1]
    assert np.array_equal(first, pixels[rows])


@pytest.mark.parametrize(
    ("chosen", "options", "says"),
    [
        ([], {}, "many sizes"),
        ([ops.Resize(32)], {}, "many sizes"),
        ([ops.CenterCrop(8), ops.Normalize.imagenet()], {"out": "uint8"}, "Normalize makes floats"),
        ([ops.CenterCrop(8)], {"out": "int8"}, "out is 'int8'"),
        ([ops.CenterCrop(8)], {"layout": "CHW"}, "layout is 'CHW'"),
        ([ops.CenterCrop(8)], {"dct_scale": "2"}, "dct_scale is '2'"),
    ],
)
def test_what_cannot_be_is_refused_when_the_decoder_is_made(
    chosen: list[Any], options: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        PictureDecoder(chosen, **options)  # type: ignore[arg-type]


def test_buffers_of_the_wrong_size_are_refused() -> None:
    pipeline = _core.Pipeline([("resize", 0, [8.0, 8.0])], 8, 8, "float32", "NCHW", [], [], "off")
    part = Slice(PICTURES[:2])
    for images in (np.zeros((2, 3, 8, 8)), np.zeros((1, 3, 8, 8), np.float32), np.zeros((4, 3, 8, 8), np.float32)[::2]):
        with pytest.raises((ValueError, TypeError)):
            pipeline.run(
                _core.Scratch(), part.arena, part.offsets, part.sizes, part.ids, 0, 0, images, np.zeros(2, np.int32)
            )


@pytest.mark.parametrize("orientation", ["stored", "exif"])
def test_a_picture_that_has_a_code_before_is_not_decoded_and_keeps_it(orientation: str) -> None:
    png = io.BytesIO()
    Image.new("RGB", (20, 20)).save(png, "PNG")
    part = Slice([PICTURES[0], b"no picture", png.getvalue(), PICTURES[1]])
    decoder = PictureDecoder([ops.RandomResizedCrop(40)], orientation=orientation)
    expected, _, _ = part.run(decoder)
    images, codes = np.full((4, *decoder.shape), 7, np.uint8), np.array([0, 2, 2, 2], np.int32)
    scratch = decoder.new_scratch()
    assert decoder.run(scratch, part.arena, part.offsets, part.sizes, part.ids, 7, 3, images, codes) == {}
    assert codes.tolist() == [0, 2, 2, 2]
    assert np.array_equal(images[0], expected[0])
    assert (images[1:] == 7).all()


def test_the_core_skips_every_picture_whose_code_is_not_good_and_learns_nothing_from_it() -> None:
    pipeline = _core.Pipeline([("resize", 0, [8.0, 8.0])], 8, 8, "uint8", "NHWC", [], [], "off")
    part, scratch, store = Slice(PICTURES[:4]), _core.Scratch(), _core.EntryPointStore(1 << 20)
    where = (part.arena, part.offsets, part.sizes, part.ids)
    images, codes = np.full((4, 8, 8, 3), 7, np.uint8), np.array([-1, 1, 2, 3], np.int32)
    pipeline.run(scratch, *where, 0, 0, images, codes, store)
    core_testing.run_decode_only(pipeline, scratch, *where, 0, 0, codes, store)
    assert codes.tolist() == [-1, 1, 2, 3]
    assert (images == 7).all()
    assert (scratch.messages, scratch.needs, core_testing.size_bytes(store)) == ([], [], 0)
