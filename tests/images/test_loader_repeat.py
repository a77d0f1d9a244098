"""repeat=N gives N samples of a picture in a row, each what it is when decoded alone with the same draw number."""

from __future__ import annotations

import io
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import trainload as tl
from loading_data import jpegs, write_dts
from test_loader_arrays import write_array
from trainload import _core
from trainload.images.decode import PictureDecoder
from trainload.images.limits import PictureLimits

COUNT, REPEAT, BATCH = 44, 4, 8
OPS = [tl.RandomResizedCrop(16), tl.RandomHorizontalFlip(), tl.ColorJitter(0.4, 0.4)]
LABELS = [n % 4 for n in range(COUNT)]
SHUFFLES = pytest.mark.parametrize("shuffle", ["none", "group", "full"])
MODES = pytest.mark.parametrize("mode", ["fully", "partial"])


def png(encoded: bytes, mode: str) -> bytes:
    file = io.BytesIO()
    Image.open(io.BytesIO(encoded)).convert(mode).save(file, "JPEG" if mode == "CMYK" else "PNG")
    return file.getvalue()


def pictures() -> list[bytes]:
    """Some of which the core leaves to Pillow, some progressive."""
    found = jpegs(COUNT, width=150, height=110)
    found[3], found[7] = png(found[3], "RGB"), png(found[7], "CMYK")
    file = io.BytesIO()
    Image.open(io.BytesIO(found[9])).save(file, "JPEG", progressive=True)
    found[9] = file.getvalue()
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dts(tmp_path_factory.mktemp("repeat") / "set.dts", pictures(), LABELS, 10)


def loader_of(ds: Any, **options: Any) -> tl.ImageLoader:
    given = {"batch_size": BATCH, "ops": OPS, "with_ids": True, "workers": 2, "repeat": REPEAT, "seed": 3}
    return tl.ImageLoader(ds, **{**given, "group_blocks": 2, "tuning": tl.Tuning(io_workers=2), **options})


def samples(batches: Any) -> list[tuple[int, bytes]]:
    return [(int(i), image.tobytes()) for images, _, ids in batches for image, i in zip(images, ids)]


# The order


@SHUFFLES
def test_an_epoch_is_that_without_repeats_each_sample_n_times_in_a_row(path: Path, shuffle: str) -> None:
    loader, plain = loader_of(path, shuffle=shuffle), loader_of(path, shuffle=shuffle, repeat=1)
    for epoch in (0, 5):
        assert loader.epoch_ids(epoch).tolist() == np.repeat(plain.epoch_ids(epoch), REPEAT).tolist()
        assert loader.epoch_draws(epoch).tolist() == list(range(REPEAT)) * COUNT
    assert len(loader) == COUNT * REPEAT // BATCH and len(list(loader)) == len(loader)


def test_weights_count_on(path: Path) -> None:
    loader = loader_of(path, weights=np.arange(COUNT) < 3)
    ids, draws = loader.epoch_ids(0), loader.epoch_draws(0)
    for sample in range(3):
        assert draws[ids == sample].tolist() == list(range((ids == sample).sum()))


@MODES
@SHUFFLES
@pytest.mark.parametrize("options", [{}, {"dct_scale": "auto"}, {"orientation": "exif"}], ids=str)
def test_every_sample_is_what_it_is_alone(path: Path, mode: str, shuffle: str, options: dict[str, Any]) -> None:
    loader = loader_of(path, mode=mode, shuffle=shuffle, **options)
    plain = loader_of(path, repeat=1, **options)
    for epoch in range(2):
        found = samples(loader)
        ids, draws = loader.epoch_ids(epoch), loader.epoch_draws(epoch)
        assert [i for i, _ in found] == ids.tolist()
        for place, (i, pixels) in enumerate(found):
            images, *_ = plain.batch([i], epoch, draws=int(draws[place]))
            assert images[0].tobytes() == pixels
        assert len(set(found)) == len(found)  # no two draws alike


def test_ranks_and_a_resume_in_mid_epoch_concatenate_to_one_stream(path: Path) -> None:
    whole = samples(loader_of(path, last="drop"))
    ranks = [samples(loader_of(path, last="drop", rank=r, world_size=2)) for r in range(2)]
    cut = len(whole) // (2 * BATCH)
    for step in range(cut):
        mine = [ranks[r][step * BATCH : (step + 1) * BATCH] for r in range(2)]
        assert mine[0] + mine[1] == whole[step * 2 * BATCH : (step + 1) * 2 * BATCH]
    loader = loader_of(path)
    iterator = iter(loader)
    first = samples([next(iterator), next(iterator)])
    state = json.loads(json.dumps(loader.state_dict()))
    other = loader_of(path, batch_size=3 * REPEAT)
    other.load_state_dict(state)
    assert first + samples(other) == samples(loader_of(path))
    assert samples(pickle.loads(pickle.dumps(loader))) == samples(iterator)


def test_arrays_repeat_too(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    array = write_array(tmp_path / "cifar.dts", "CIFAR10", pixels, np.arange(20) % 4)
    loader = loader_of(array, ops=[tl.RandomCrop(16)])
    found, draws = samples(loader), loader.epoch_draws(0)
    for place, (i, made) in enumerate(found):
        assert loader.batch([i], 0, draws=int(draws[place]))[0][0].tobytes() == made


def test_with_ops_and_kept_pixels_go_on_with_it(path: Path) -> None:
    assert len(loader_of(path).with_ops([tl.RandomResizedCrop(8)])) == COUNT * REPEAT // BATCH
    kept, plain = (loader_of(path, keep=keep, ops=[tl.Resize((8, 8))]) for keep in ("pixels", None))
    for _ in range(2):
        assert samples(kept) == samples(plain)


# States


def test_a_state_says_how_often_and_one_of_another_repeat_is_refused(path: Path) -> None:
    loader, plain = loader_of(path), loader_of(path, repeat=1)
    state = loader.state_dict()
    assert (state["version"], state["repeat"]) == (3, REPEAT)
    assert plain.state_dict()["version"] == 2 and "repeat" not in plain.state_dict()
    with pytest.raises(tl.UsageError, match="repeat=4, this one has 1"):
        plain.load_state_dict(state)
    with pytest.raises(tl.UsageError, match="repeat=1, this one has 4"):
        loader.load_state_dict(plain.state_dict())
    with pytest.raises(tl.UsageError, match="the entries"):
        loader.load_state_dict({**state, "version": 2})
    loader.load_state_dict(state)
    assert loader.state_dict() == state


def test_a_batch_must_hold_whole_pictures(path: Path) -> None:
    with pytest.raises(tl.UsageError, match="give a multiple of 4"):
        loader_of(path, batch_size=10)
    with pytest.raises(tl.UsageError, match="repeat is 0"):
        loader_of(path, repeat=0)


def test_the_memory_plan_counts_what_samples_take_that_are_made_together(path: Path) -> None:
    many, one = (loader_of(path, repeat=n).memory_plan().buffers["scratch of 2 decode workers"] for n in (REPEAT, 1))
    assert many > one


# Damage, decoded once


def test_damage_is_the_same_as_alone(tmp_path: Path) -> None:
    """Cut off at three quarters: a crop of the upper part is good, whatever the other samples of the picture need."""
    found = jpegs(COUNT, width=150, height=110)
    for n in range(0, COUNT, 2):
        found[n] = found[n][: len(found[n]) * 3 // 4]
    path = write_dts(tmp_path / "cut.dts", found, LABELS, 10)
    loader, alone = loader_of(path, on_error="replace", replace_limit=10**6), loader_of(path, repeat=1)
    bad = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = samples(loader)
    for place, (i, draw) in enumerate(zip(loader.epoch_ids(0), loader.epoch_draws(0))):
        try:
            images, *_ = alone.batch([i], 0, draws=int(draw))
        except tl.SampleError:
            bad += 1
        else:
            assert made[place] == (int(i), images[0].tobytes())
    assert 0 < bad == loader.stats.replaced


def run(decoder: PictureDecoder, encoded: bytes, count: int) -> tuple[np.ndarray, list[int], dict[int, str]]:
    images = np.zeros((count, *decoder.shape), np.uint8)
    codes = np.zeros(count, np.int32)
    arena = np.frombuffer(encoded, np.uint8)
    zeros, ids = np.zeros(count, np.uint64), np.full(count, 5, np.uint64)
    sizes, draws = np.full(count, len(encoded), np.uint64), np.arange(count, dtype=np.uint32)
    reasons = decoder.run(decoder.new_scratch(), arena, zeros, sizes, ids, 1, 2, images, codes, draws)
    return images, codes.tolist(), reasons


@pytest.mark.parametrize(
    "ops",
    [
        OPS,
        [tl.RandomCrop(200, padding=60)],
        [tl.RandomScale(), tl.RandomCrop(140, pad_if_needed=True), tl.RandomVerticalFlip()],
        [tl.Resize(90), tl.RandomCrop(64), tl.Resize((30, 30)), tl.RandomErasing(1.0)],
        [tl.RandomResizedCrop(64, scale=(0.01, 0.1), interpolation="lanczos")],
        [tl.RandomResizedCrop(32, interpolation="nearest")],
    ],
    ids=str,
)
@pytest.mark.parametrize("points", [True, False])
def test_together_and_alone_are_the_same_bits_for_any_geometry(ops: list[Any], points: bool) -> None:
    encoded = jpegs(1, width=151, height=109)[0]
    decoder = PictureDecoder(ops, entry_points=_core.EntryPointStore(1 << 20) if points else None)
    for _ in range(2):
        together, codes, reasons = run(decoder, encoded, 7)
        assert not any(codes) and not reasons
        for n in range(7):
            images = np.zeros((1, *decoder.shape), np.uint8)
            zero, code = np.zeros(1, np.uint64), np.zeros(1, np.int32)
            arena, size = np.frombuffer(encoded, np.uint8), np.array([len(encoded)], np.uint64)
            draws = np.array([n], np.uint32)
            decoder.run(decoder.new_scratch(), arena, zero, size, np.array([5], np.uint64), 1, 2, images, code, draws)
            assert images[0].tobytes() == together[n].tobytes()


def test_samples_that_take_too_much_memory_together_are_made_one_by_one() -> None:
    encoded = jpegs(1, width=400, height=300)[0]
    free = PictureDecoder([tl.RandomResizedCrop(224)])
    small = PictureDecoder([tl.RandomResizedCrop(224)], limits=PictureLimits(10**9, 600_000, 600_000))
    for mine, other in zip(run(free, encoded, 9), run(small, encoded, 9)):
        assert np.array_equal(mine, other) if isinstance(mine, np.ndarray) else mine == other  # type: ignore[arg-type]
