"""No picture takes memory that its bytes, its set or the loader's plan do not grant."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import threading
import zlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import trainload as tl
from dts_builder import DtsBuilder
from jpeg_writer import make_jpeg
from loading_data import write_dts, write_folder
from pillow_oracle import smooth_picture
from trainload.codecs.picture import decode_whole
from trainload.images.decode import PictureDecoder
from trainload.images.limits import PictureLimits, Turns

OPS = [tl.RandomResizedCrop(16)]


def encoded(picture: Image.Image, kind: str = "JPEG", **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def bomb(mode: str, side: int = 13_000, **options: Any) -> bytes:
    """A JPEG of 16 x 16 pixels whose header claims side x side."""
    data = bytearray(encoded(Image.new(mode, (16, 16)), **options))
    at = data.find(b"\xff\xc2" if options.get("progressive") else b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", side, side)
    return bytes(data)


def png_bomb(side: int = 13_000) -> bytes:
    data = bytearray(encoded(Image.new("RGB", (16, 16)), "PNG"))
    data[16:24] = struct.pack(">II", side, side)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    return bytes(data)


BOMBS = {
    "baseline": bomb("RGB"),
    "progressive": bomb("RGB", progressive=True),
    "gray": bomb("L"),
    "progressive gray": bomb("L", progressive=True),
    "CMYK": bomb("CMYK"),
    "progressive CMYK": bomb("CMYK", progressive=True),
    "PNG": png_bomb(),
}
KINDS = {
    "baseline": lambda picture: encoded(picture),
    "progressive": lambda picture: encoded(picture, progressive=True, subsampling=0),
    "progressive gray": lambda picture: encoded(picture.convert("L"), progressive=True),
    "CMYK": lambda picture: encoded(picture.convert("CMYK")),
    "progressive CMYK": lambda picture: encoded(picture.convert("CMYK"), progressive=True),
    "PNG": lambda picture: encoded(picture, "PNG", compress_level=1),
    "PNG with alpha": lambda picture: encoded(picture.convert("RGBA"), "PNG", compress_level=1),
    "PNG with a palette": lambda picture: encoded(picture.quantize(17), "PNG", compress_level=1),
}


def first_batch(path: Path, **options: Any) -> Any:
    with (
        tl.open_images(path) as ds,
        tl.ImageLoader(ds, **{"batch_size": 1, "workers": 1, "ops": OPS, **options}) as loader,
    ):
        return next(iter(loader))


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("kind", BOMBS)
def test_more_pixels_than_the_bytes_can_code_are_refused(kind: str, tmp_path: Path) -> None:
    path = DtsBuilder([[(BOMBS[kind], 0, "ant/a.jpg")]]).write(tmp_path / "b.dts")
    for source in (path, write_folder(tmp_path / "folder", [BOMBS[kind]], [0])):
        with pytest.raises(tl.SampleError, match=r"claims 13000x13000 pixels, which \d+ bytes cannot code"):
            first_batch(source)
    with pytest.raises(ValueError, match="13000x13000"):
        decode_whole(BOMBS["PNG"])


@pytest.mark.parametrize("kind", KINDS)
def test_no_picture_is_larger_than_its_set_says(kind: str, tmp_path: Path) -> None:
    block = [(KINDS[kind](Image.new("RGB", (48, 40))), 0, "ant/a")]
    header = {"max_pic_area": 48 * 40 - 1}
    path = DtsBuilder([block], header=header).write(tmp_path / "small.dts")
    with pytest.raises(tl.SampleError, match=r"its header claims 48x40 pixels, more than any .* may have \(1919\)"):
        first_batch(path)
    first_batch(DtsBuilder([block], header={"max_pic_area": 48 * 40}).write(tmp_path / "true.dts"))
    first_batch(DtsBuilder([block], header=header, extension=False).write(tmp_path / "genuine.dts"))


@settings(max_examples=60, deadline=None)
@given(
    size=st.tuples(st.integers(1, 900), st.integers(1, 900)),
    mode=st.sampled_from(["L", "RGB", "CMYK"]),
    progressive=st.booleans(),
    subsampling=st.integers(0, 2),
    optimize=st.booleans(),
)
def test_the_emptiest_picture_has_bytes_enough(
    size: tuple[int, int], mode: str, progressive: bool, subsampling: int, optimize: bool
) -> None:
    options: dict[str, Any] = {} if mode == "CMYK" else {"subsampling": subsampling}
    empty = Image.new(mode, size)
    data = [encoded(empty, quality=1, progressive=progressive, optimize=optimize, **options)]
    data += [encoded(empty, "PNG", compress_level=9)] if mode != "CMYK" else []
    part = _Slice(data)
    assert part.run(PictureDecoder([tl.Resize((5, 5))])) == {}


def test_the_emptiest_picture_of_any_sampling_has_bytes_enough() -> None:
    for sampling in ("4:4:4", "4:2:2", "4:4:0", "4:2:0", "4:1:1", "4:1:0", "gray"):
        assert _Slice([make_jpeg(160, 120, sampling, seed=1)]).run(PictureDecoder([tl.Resize((5, 5))])) == {}
    one_bit = encoded(Image.new("1", (3000, 3000)), "PNG", compress_level=9)
    assert _Slice([one_bit]).run(PictureDecoder([tl.CenterCrop((5, 5))])) == {}


class _Slice:
    """Pictures in one arena, decoded at once."""

    def __init__(self, pictures: list[bytes]) -> None:
        self.arena = np.frombuffer(b"".join(pictures), np.uint8)
        self.sizes = np.array([len(picture) for picture in pictures], np.uint64)
        self.offsets = (np.cumsum(self.sizes) - self.sizes).astype(np.uint64)
        self.ids = np.arange(len(pictures), dtype=np.uint64)

    def run(self, decoder: PictureDecoder) -> dict[int, str]:
        self.images = np.zeros((len(self.ids), *decoder.shape), decoder.dtype)
        self.codes = np.zeros(len(self.ids), np.int32)
        scratch = decoder.new_scratch()
        return decoder.run(scratch, self.arena, self.offsets, self.sizes, self.ids, 7, 3, self.images, self.codes)


def test_pictures_that_take_turns_have_the_same_pixels_and_reasons() -> None:
    whole = [make(Image.fromarray(smooth_picture(150, 200))) for make in KINDS.values()]
    pictures = [*whole, *(one[: len(one) // 2] for one in whole)]
    ops = [tl.RandomResizedCrop(32), tl.RandomHorizontalFlip()]
    alike, in_turns = _Slice(pictures), _Slice(pictures)
    reasons = alike.run(PictureDecoder(ops))
    assert in_turns.run(PictureDecoder(ops, limits=PictureLimits(beside_bytes=0))) == reasons
    assert np.array_equal(in_turns.codes, alike.codes)
    good = alike.codes == 0
    assert good[: len(whole)].all()
    assert np.array_equal(in_turns.images[good], alike.images[good])


def test_turns_fit_into_their_room_and_the_largest_goes_alone() -> None:
    turns, lock, inside = Turns(10), threading.Lock(), []

    def visit(size: int) -> list[int]:
        with turns.wait_for(size):
            with lock:
                inside.append(size)
                seen = list(inside)
            threading.Event().wait(0.001)
            with lock:
                inside.remove(size)
        return seen

    with ThreadPoolExecutor(8) as pool:
        for seen in pool.map(visit, [3, 4, 25, 2, 10, 1] * 10):
            assert sum(seen) <= 10 or len(seen) == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc to see memory in")
def test_no_thread_keeps_the_memory_of_a_large_picture() -> None:
    """In a process of its own: what other tests leave behind, or free meanwhile, is not measured."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        grown_bytes = alone.submit(_growth_by_large_pictures, threads=6).result()
    assert grown_bytes < 2 * 4 * 4000 * 2500  # Pillow has four bytes for each pixel


def _growth_by_large_pictures(*, threads: int) -> int:
    """Resident bytes that decoding one large PNG on each of `threads` threads leaves behind."""

    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    part = _Slice([encoded(Image.new("RGB", (4000, 2500)), "PNG", compress_level=1)])
    decoder = PictureDecoder([tl.CenterCrop(8)], limits=PictureLimits(beside_bytes=1 << 20))
    together = threading.Barrier(threads)
    with ThreadPoolExecutor(threads) as pool:
        before = resident_bytes()
        assert list(pool.map(lambda _: together.wait() >= 0 and part.run(decoder), range(threads))) == [{}] * threads
        return resident_bytes() - before


MEASURE = """
import sys, warnings, trainload as tl
warnings.simplefilter("ignore")
peak = lambda: [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")][0] << 10
import PIL.JpegImagePlugin, PIL.PngImagePlugin
loader = tl.ImageLoader(sys.argv[1], batch_size=4, ops=[tl.RandomResizedCrop(64)], workers=8, mode="partial", seed=1)
planned, before = loader.memory_plan().total_bytes, peak()
for batch in loader: pass
print(peak() - before, planned)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to see memory in")
@pytest.mark.parametrize("source", ["folder", "dts"])
@pytest.mark.parametrize("kinds", [["PNG", "PNG with alpha"], ["CMYK", "progressive CMYK"], ["progressive"]], ids=str)
def test_large_pictures_of_every_kind_fit_into_the_plan(source: str, kinds: list[str], tmp_path: Path) -> None:
    picture = Image.fromarray(np.tile(np.arange(2400, dtype=np.uint16).astype(np.uint8)[None, :, None], (1500, 1, 3)))
    pictures = [KINDS[kind](picture) for kind in kinds] * (12 // len(kinds))
    labels = [0] * len(pictures)
    path = write_folder(tmp_path / "set", pictures, labels)
    if source == "dts":
        path = write_dts(tmp_path / "set.dts", pictures, labels, 12)
    done = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True)
    grew, planned = map(int, done.stdout.split())
    assert grew <= planned


def test_the_plan_of_small_pictures_stays_small_and_one_giant_has_a_line_of_its_own(tmp_path: Path) -> None:
    small = encoded(Image.new("RGB", (300, 200)))
    plans = {}
    for name, pictures in {"small": [small], "giant": [small, encoded(Image.new("L", (9000, 9000)))]}.items():
        path = write_dts(tmp_path / f"{name}.dts", pictures, [0] * len(pictures), 2)
        with tl.open_images(path) as ds:
            plans[name] = tl.ImageLoader(ds, batch_size=1, ops=OPS, workers=8).memory_plan().buffers
    large = "pictures too large to decode side by side"
    assert plans["small"][large] == 0
    assert plans["small"]["scratch of 8 decode workers"] < 150 << 20
    assert plans["giant"][large] == 12 * 9000 * 9000
    assert plans["giant"]["scratch of 8 decode workers"] < 500 << 20
