"""A sample that an epoch repeats is augmented anew each time, by its draw number alone; what comes once is as ever."""

from __future__ import annotations

import io
import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import trainload as tl
from loading_data import jpegs, write_dts
from test_core_pipeline import FLIPS, PICTURES, Slice, by_plan
from trainload.images.decode import PictureDecoder
from trainload.images.ops import operations as ops
from trainload.running import selection
from trainload.running.order import draw_numbers
from trainload.running.philox import Draws, sample_bits

COUNT, PER_BLOCK, BATCH = 30, 7, 4
OPS = [tl.RandomResizedCrop(16), tl.RandomHorizontalFlip()]
WEIGHTS = np.where(np.arange(COUNT) < 4, 1.0, 0.02)
REPEATED = [3, 9, 3, 3, 20, 9, 0, 3, 29, 20, 3, 9, 1]
CHOICES = pytest.mark.parametrize(
    "choice",
    [
        {"weights": WEIGHTS},
        {"indices": REPEATED, "shuffle": "full"},
        {"indices": REPEATED, "shuffle": "none"},
        {"indices": REPEATED, "shuffle": "group"},
    ],
    ids=["weights", "indices full", "indices none", "indices group"],
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    labels = [n % 3 for n in range(COUNT)]
    return write_dts(tmp_path_factory.mktemp("repeats") / "set.dts", jpegs(COUNT), labels, PER_BLOCK)


def loader_of(path, **options):
    given = {"batch_size": BATCH, "ops": OPS, "seed": 5, "with_ids": True, "workers": 2, "mode": "fully"}
    return tl.ImageLoader(path, **{**given, **options})


def bits(batches) -> list[bytes]:
    """One entry per batch: all that is in it."""
    return [b"".join(part.tobytes() for part in batch) for batch in batches]


def pictures(batches) -> list[tuple[int, bytes]]:
    """One (id, pixels) per picture."""
    return [(int(i), picture.tobytes()) for images, _, ids in batches for picture, i in zip(images, ids)]


def by_counting(order: list[int]) -> list[int]:
    """docs/order.md, section 6, word for word."""
    return [order[:n].count(sample) for n, sample in enumerate(order)]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 9) | st.integers(0, 2**32 - 1), max_size=60))
def test_the_draw_number_counts_the_earlier_positions_of_the_same_sample(order):
    found = draw_numbers(np.array(order, np.int64))
    assert found.dtype == np.uint32
    assert found.tolist() == by_counting(order)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5))
def test_a_draw_number_names_random_numbers_of_its_own(sample, draws):
    table = sample_bits(4, 1, [sample] * len(draws), 6, 5, draws=draws)
    for row, draw in zip(table, draws):
        numbers = Draws(4, 1, sample, 6, draw)
        assert [numbers.bits() for _ in range(5)] == row.tolist()
    assert len({tuple(row) for row in table.tolist()}) == len(set(draws))
    assert np.array_equal(sample_bits(4, 1, [sample], 6, 5, draws=0), sample_bits(4, 1, [sample], 6, 5))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])  # PNG takes the way of Pillow
def test_the_core_draws_what_the_plan_draws(kind):
    encoded = PICTURES[0]
    if kind == "PNG":
        file = io.BytesIO()
        Image.open(io.BytesIO(encoded)).save(file, "PNG")
        encoded = file.getvalue()
    chosen = [ops.RandomResizedCrop(24), *FLIPS, ops.RandomErasing(0.7, value=(1, 2, 3))]
    decoder, part = PictureDecoder(chosen), Slice([encoded] * 5)
    part.ids[:] = 77
    draws = np.array([0, 1, 2, 2**20, 2**32 - 1], np.uint32)
    images, codes = np.zeros((5, *decoder.shape), np.uint8), np.zeros(5, np.int32)
    scratch = decoder.new_scratch()
    decoder.run(scratch, part.arena, part.offsets, part.sizes, part.ids, 7, 3, images, codes, draws)
    for image, draw in zip(images, draws.tolist()):
        assert np.array_equal(image, by_plan(chosen, encoded, 77, draw=draw))
    assert len({image.tobytes() for image in images}) == 5


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_in_memory_draw_alike(channels):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 30, 30, channels), np.uint8)
    decoder = PictureDecoder([ops.RandomCrop(8)], array_shape=(30, 30, channels))
    rows = np.array([2, 2, 2], np.uint64)

    def run(draws):
        images = np.zeros((3, *decoder.shape), np.uint8)
        decoder.run_pixels(decoder.new_scratch(), pixels, rows, 7, 3, images, draws)
        return [image.tobytes() for image in images]

    first = run(None)[0]
    assert run(np.array([0, 1, 5], np.uint32))[0] == first
    assert len(set(run(np.array([0, 1, 5], np.uint32)))) == 3


@CHOICES
@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_every_repeat_of_an_epoch_is_another_picture_and_the_first_is_as_ever(path, choice, mode):
    loader = loader_of(path, mode=mode, **choice)
    for epoch in range(2):
        found = pictures(loader)
        assert [i for i, _ in found] == loader.epoch_ids(epoch).tolist()
        assert len(set(found)) == len(found) > len({i for i, _ in found})
        assert loader.epoch_draws(epoch).tolist() == by_counting(loader.epoch_ids(epoch).tolist())
        once = dict(reversed(found))
        for i, pixels in once.items():
            assert loader.batch([i], epoch=epoch)[0].tobytes() == pixels


@CHOICES
@pytest.mark.parametrize("last", ["short", "drop", "pad"])
def test_threads_ranks_and_modes_do_not_matter(path, choice, last):
    whole = pictures(loader_of(path, last="short", workers=1, **choice))
    if last == "pad":
        whole += whole
    for world, mode in ((1, "partial"), (2, "fully"), (3, "partial")):
        ranks = [
            pictures(loader_of(path, rank=r, world_size=world, mode=mode, last=last, workers=5, **choice))
            for r in range(world)
        ]
        positions = len(ranks[0]) * world if last != "short" else len(whole)
        found = [picture for rank in ranks for picture in rank]
        assert sorted(found) == sorted(whole[:positions])


@CHOICES
def test_a_resume_at_every_batch_gives_the_same_bits(path, choice):
    loader = loader_of(path, **choice)
    parts, states = [], [loader.state_dict()]
    for batch in loader:
        parts += bits([batch])
        states.append(loader.state_dict())
    other = loader_of(path, seed=99, workers=1, mode="partial", **choice)
    for n, state in enumerate(states[:-1]):
        other.load_state_dict(json.loads(json.dumps(state)))
        assert bits(other) == parts[n:]


def test_a_batch_at_once_takes_the_draws_too_and_mixing_follows_them(path):
    mixing = [*OPS, tl.Normalize.imagenet(), tl.MixUp(num_classes=3), tl.CutMix()]
    loader = loader_of(path, ops=mixing, weights=np.arange(COUNT) == 8)
    batches = bits(loader)
    ids, draws = loader.epoch_ids(0), loader.epoch_draws(0)
    again = [loader.batch(ids[n : n + BATCH], epoch=0, draws=draws[n : n + BATCH]) for n in range(0, len(ids), BATCH)]
    assert bits(again) == batches
    same = loader.batch([8] * 3, epoch=0)
    assert bits([loader.batch([8] * 3, epoch=0, draws=0)]) == bits([same])
    two = loader_of(path, ops=mixing, indices=[1, 0, 1, 0], batch_size=2, shuffle="none")
    (_, first, _), (_, second, _) = two
    assert not np.array_equal(first, second)  # both batches begin with sample 1


@pytest.mark.parametrize("draws", [[0, 1], -1, 2**32, 0.5, [[0]]])
def test_draws_that_cannot_be_are_refused(path, draws):
    with pytest.raises(tl.UsageError, match="draws"):
        loader_of(path).batch([1, 2, 3], draws=draws)


def test_a_replacement_brings_its_own_draw(tmp_path):
    data = jpegs(6)
    data[2] = b"\xff\xd8 no picture"
    path = write_dts(tmp_path / "bad.dts", data, [0, 1, 2, 0, 1, 2], 3)
    options = {"shuffle": "none", "on_error": "replace", "ops": [*OPS, tl.MixUp(num_classes=3)], "batch_size": 2}
    loader = loader_of(path, indices=[1, 1, 2, 1, 2, 2, 3, 1], **options)
    found = [tuple(part.copy() for part in batch) for batch in loader]
    assert [ids.tolist() for _, _, ids in found] == [[1, 1], [1, 1], [3, 3], [3, 1]]
    for (images, labels, ids), draws in zip(found, ([0, 1], [2, 2], [0, 0], [0, 3])):
        assert bits([(images, labels, ids)]) == bits([loader.batch(ids, epoch=0, draws=draws)])


@CHOICES
def test_a_state_of_version_1_goes_on_under_its_law_and_says_so(path, choice):
    loader = loader_of(path, **choice)
    state = {**loader.state_dict(), "position": BATCH}
    assert state["version"] == 2
    with pytest.warns(UserWarning, match="'version': 2"):
        loader.load_state_dict({**state, "version": 1})
    rest = pictures(loader)
    ids = loader.epoch_ids(0)[BATCH:]
    assert rest == [(int(i), loader.batch([i], epoch=0)[0].tobytes()) for i in ids]
    assert loader.epoch_draws(1).tolist() == [0] * len(loader.epoch_ids(1))
    assert loader.state_dict()["version"] == 1
    loader.load_state_dict({**state, "version": 2})
    assert pictures(loader) == pictures(loader_of(path, **choice))[BATCH:]


def test_a_state_of_version_1_of_an_order_without_repeats_means_the_same(path):
    loader, other = loader_of(path), loader_of(path)
    state = {**loader.state_dict(), "position": BATCH}
    loader.load_state_dict(state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.load_state_dict({**state, "version": 1})
    assert bits(loader) == bits(other)


def test_an_order_without_repeats_counts_nothing(path, monkeypatch):
    def never(order):
        raise AssertionError("counted")

    monkeypatch.setattr(selection, "draw_numbers", never)
    assert not loader_of(path).epoch_draws(0).any()
    assert not loader_of(path, indices=[9, 3, 4]).epoch_draws(0).any()
    with pytest.raises(AssertionError):
        loader_of(path, indices=[9, 3, 9]).epoch_draws(0)


def test_repeats_beyond_what_a_counter_holds_are_refused(monkeypatch):
    monkeypatch.setattr(selection, "MOST_REPEATED", 8)
    blocks = np.zeros(9, np.int64)
    for choice in ({"indices": [1, 1], "weights": None}, {"indices": None, "weights": np.ones(9)}):
        with pytest.raises(tl.UsageError, match="at most 2\\^32 samples"):
            selection.select(9, blocks, **choice)
    assert len(selection.select(9, blocks, None, None)) == 9
