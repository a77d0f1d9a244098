"""shuffle="lanes": the global order cut by whole lanes, each block read once and whole, exact after any resume."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import trainload as tl
from loading_data import counted, jpegs, write_dts, write_folder
from trainload.images.format.dts import BLOCK_SIZE, IMAGE_HEADER_BYTES
from trainload.images.loading.fill import Fill
from trainload.images.loading.lane_layout import lane_segments
from trainload.images.loading.layout import aligned
from trainload.images.loading.picture_sets import DtsPictures, Places
from trainload.running.lanes import deal_lanes
from trainload.running.order import OrderRule, epoch_order

BLOCKS, LANES = 40, 8
SIZES = [int(n) for n in np.random.default_rng(4).integers(2, 9, BLOCKS)]
COUNT = sum(SIZES)
OPS = [tl.RandomResizedCrop(16), tl.RandomHorizontalFlip()]
BLOCK_OF = np.repeat(np.arange(BLOCKS), SIZES)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("lanes") / "set.dts"
    return write_dts(where, jpegs(COUNT), [n % 4 for n in range(COUNT)], SIZES)


def loader_of(ds: Any, **options: Any) -> tl.ImageLoader:
    given_options = {"batch_size": 3, "ops": OPS, "seed": 5, "with_ids": True, "workers": 2, "mode": "partial"}
    return tl.ImageLoader(ds, **{**given_options, "shuffle": "lanes", "group_blocks": 1, "lanes": LANES, **options})


def ranks_of(ds: Any, ranks: int, state: dict[str, Any] | None = None, **options: Any) -> list[tl.ImageLoader]:
    loaders = [loader_of(ds, rank=rank, world_size=ranks, **options) for rank in range(ranks)]
    for loader in loaders if state is not None else ():
        assert state is not None
        loader.load_state_dict(state)
    return loaders


def steps_of(loaders: list[tl.ImageLoader], position: int, steps: int | None = None) -> list[tuple[int, bytes]]:
    """What all ranks together are handed, put back into the global order: (id, picture) by position."""
    found: dict[int, tuple[int, bytes]] = {}
    ranks = len(loaders)
    iterators = [iter(loader) for loader in loaders]
    for n, batches in enumerate(zip(*iterators, strict=True) if steps is None else zip(*iterators)):
        for rank, (images, _, ids) in enumerate(batches):
            places = [p for p in range(position, position + ranks * loaders[0].batch_size) if p % ranks == rank]
            assert len(ids) == len(places) or position + ranks * loaders[0].batch_size > COUNT
            found |= {p: (int(ids[k]), images[k].tobytes()) for k, p in enumerate(places[: len(ids)])}
        position += ranks * loaders[0].batch_size
        if steps is not None and n + 1 == steps:
            break
    return [one for _, one in sorted(found.items())]


@pytest.mark.parametrize("mode", ["fully", "partial"])
@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_the_batches_of_all_ranks_are_the_global_order(path: Path, mode: str, ranks: int) -> None:
    loaders = ranks_of(path, ranks, mode=mode)
    reference = loader_of(path, mode="fully")
    for epoch in range(2):
        ids = reference.epoch_ids(epoch)
        rule = OrderRule(5, "lanes", 1, lanes=LANES)
        assert np.array_equal(ids, epoch_order(rule, epoch, np.arange(COUNT), BLOCK_OF))
        found = steps_of(loaders, 0)
        assert [sample for sample, _ in found] == ids.tolist()
        images = reference.batch(ids, epoch)[0]
        assert [picture for _, picture in found] == [image.tobytes() for image in images]


def test_a_run_goes_on_with_one_then_two_then_eight_ranks(path: Path) -> None:
    whole = steps_of(ranks_of(path, 1), 0)
    found, position, state = [], 0, None
    for ranks, steps in ((1, 5), (2, 7), (8, None)):
        loaders = ranks_of(path, ranks, state)
        found += steps_of(loaders, position, steps)
        states = [loader.state_dict() for loader in loaders]
        assert all(one == states[0] for one in states)
        state = states[0]
        position = int(state["position"])
    assert found == whole
    assert state is not None
    assert (state["epoch"], position) == (1, 0)


def test_damage_is_carried_over_with_its_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried: list[int] = []
    carry = Fill.carry

    def noted(self: Fill, before: Fill, ids: Any, sizes: Any) -> None:
        carry(self, before, ids, sizes)
        carried.extend(ids.tolist())

    monkeypatch.setattr(Fill, "carry", noted)
    damaged = tmp_path / "damaged.dts"
    write_dts(damaged, jpegs(COUNT), [0] * COUNT, SIZES, picture_crcs=True)
    with tl.open_images(damaged) as reader, damaged.open("r+b") as file:
        assert isinstance(reader, tl.DtsReader)
        for sample in range(0, COUNT, 3):
            block = int(reader.block_of[sample])
            file.seek(IMAGE_HEADER_BYTES + block * BLOCK_SIZE + int(reader.offset_in_block[sample]) + 300)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 255]))
    found = []
    for mode in ("fully", "partial"):
        loader = loader_of(damaged, mode=mode, on_error="replace", replace_limit=COUNT)
        with pytest.warns(RuntimeWarning):
            found.append([(ids.tolist(), images.tobytes()) for images, _, ids in loader])
        assert loader.stats.replaced
    assert found[0] == found[1]
    assert any(sample % 3 == 0 for sample in carried)


def test_what_a_failed_read_was_to_bring_fails_where_it_is_needed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = loader_of(path, batch_size=1, tuning=tl.Tuning(prefetch=1, buffers=tl.BufferPair()))
    order = BLOCK_OF[loader.epoch_ids(0)]
    block = int(order[-1])
    read = DtsPictures.read

    def failing(self: DtsPictures, unit: int, start: int, buffer: Any) -> None:
        if unit == block:
            raise OSError("no such host")
        read(self, unit, start, buffer)

    monkeypatch.setattr(DtsPictures, "read", failing)
    handed = []
    with pytest.raises(OSError, match="no such host"):
        handed += [int(ids[0]) for _, _, ids in loader]
    assert loader.stats.samples == int(np.flatnonzero(order == block)[0])


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_each_block_is_read_once_and_whole_by_the_rank_of_its_lane(path: Path, ranks: int) -> None:
    parts = deal_lanes(5, LANES, BLOCK_OF)
    lanes_of = {block: set(parts.lane_of[block == BLOCK_OF].tolist()) for block in range(BLOCKS)}
    total = 0
    for rank in range(ranks):
        alone = tl.Tuning(buffers=tl.BufferPair())  # buffers that may be shared are not filled ahead
        loader = loader_of(path, rank=rank, world_size=ranks, tuning=alone)
        log = counted(loader)
        for _ in loader:
            pass
        whole = Counter(unit for unit, start, size in log if (start, size) == (0, BLOCK_SIZE))
        mine = {block for block, lanes in lanes_of.items() if all(lane % ranks == rank for lane in lanes)}
        partly = {block for block, lanes in lanes_of.items() if any(lane % ranks == rank for lane in lanes)}
        assert whole == dict.fromkeys(mine, 1)
        assert {unit for unit, _, _ in log} == partly
        total += len(mine)
    assert total >= BLOCKS - LANES


def test_devices_of_one_process_take_lanes_each(path: Path) -> None:
    loader = loader_of(path, last="drop")
    loader.deal(4)
    alone = ranks_of(path, 4, last="drop")
    batches = [ids.tolist() for _, _, ids in loader]
    assert batches == [ids.tolist() for step in zip(*alone) for _, _, ids in step]


@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_repeats_come_in_a_row_on_one_rank(path: Path, mode: str) -> None:
    ids = loader_of(path, repeat=3).epoch_ids(0)
    assert np.array_equal(ids[::3], loader_of(path).epoch_ids(0))
    for rank, loader in enumerate(ranks_of(path, 2, repeat=3, batch_size=6, mode=mode)):
        found = np.concatenate([ids for _, _, ids in loader])
        assert np.array_equal(found, ids.reshape(-1, 3)[rank::2].reshape(-1))


def test_a_part_of_a_set_has_lanes_of_its_own_blocks(path: Path) -> None:
    indices = np.arange(COUNT)[COUNT // 3 :: 2]
    loaders = ranks_of(path, 2, indices=indices, lanes=4)
    expected = epoch_order(OrderRule(5, "lanes", 1, lanes=4), 0, indices, BLOCK_OF[indices])
    found = [np.concatenate([ids for _, _, ids in loader]) for loader in loaders]
    assert np.array_equal(found[0], expected[::2])
    assert np.array_equal(found[1], expected[1::2])


def test_the_plan_holds_a_group_of_each_lane_and_two_blocks_more(path: Path) -> None:
    def buffer(**options: Any) -> int:
        return loader_of(path, **options).memory_plan().buffers["buffer A"]

    assert buffer(lanes=4, group_blocks=2) == 4 * 4 * BLOCK_SIZE
    assert buffer(lanes=4, group_blocks=2, rank=0, world_size=4) == 4 * BLOCK_SIZE
    assert buffer(lanes=8, group_blocks=8) == BLOCKS * BLOCK_SIZE  # no more than the set


def test_states_of_lanes_are_of_version_4(path: Path) -> None:
    lanes, full = loader_of(path), loader_of(path, shuffle="full")
    state, older = lanes.state_dict(), full.state_dict()
    assert (state["version"], state["lanes"], state["repeat"]) == (4, LANES, 1)
    assert older["version"] == 2
    assert "lanes" not in older
    lanes.load_state_dict(older)
    assert lanes.state_dict() == older
    full.load_state_dict({**state, "lanes": 2})
    assert full.shuffle == "lanes"
    assert np.array_equal(full.epoch_ids(0), loader_of(path, lanes=2).epoch_ids(0))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 5}, "versions 1 to 4, not 5"),
        ({"version": 2}, "has the entries"),
        ({"shuffle": "full"}, "shuffle 'lanes' and lanes above 0"),
        ({"lanes": 0}, "shuffle 'lanes' and lanes above 0"),
        ({"lanes": -1}, "lanes in a loader's state"),
        ({"lanes": BLOCKS + 1}, f"lie in {BLOCKS} blocks"),
    ],
)
def test_a_wrong_state_is_refused(path: Path, changes: dict[str, Any], reason: str) -> None:
    loader = loader_of(path)
    with pytest.raises(tl.UsageError, match=reason):
        loader.load_state_dict({**loader.state_dict(), **changes})


def test_a_state_of_version_2_has_no_lanes(path: Path) -> None:
    state = loader_of(path, shuffle="full").state_dict()
    with pytest.raises(tl.UsageError, match="shuffle 'lanes' and lanes above 0"):
        loader_of(path).load_state_dict({**state, "shuffle": "lanes"})


def test_what_cannot_be_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(tl.UsageError, match="8 lanes to 3 ranks"):
        iter(loader_of(path, rank=0, world_size=3))
    with pytest.raises(tl.UsageError, match=f"lie in {BLOCKS} blocks"):
        loader_of(path, lanes=BLOCKS + 1)
    with pytest.warns(UserWarning, match="no samples"):
        assert list(loader_of(path, indices=[])) == []
    with pytest.raises(tl.UsageError, match="weights draw the samples themselves"):
        loader_of(path, weights=np.ones(COUNT))
    with pytest.raises(tl.UsageError, match="needs blocks"):
        loader_of(write_folder(tmp_path / "train", jpegs(4), [0, 1, 0, 1]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=4, max_size=80), st.integers(1, 4), st.integers(1, 3), st.integers(0, 30))
def test_segments_fit_and_bring_every_sample_in_time(sizes, lanes, group_blocks, start):
    block_of = np.repeat(np.arange(len(sizes)), sizes)
    count = len(block_of)
    size = np.random.default_rng(len(sizes)).integers(1, 1000, count)
    first = np.cumsum(sizes) - sizes
    room = np.add.reduceat(aligned(size), first)
    offsets = np.cumsum(aligned(size)) - aligned(size)
    places = Places(block_of, offsets - offsets[first][block_of], size, room, np.array(sizes))
    order = epoch_order(OrderRule(1, "lanes", group_blocks, lanes=lanes), 0, np.arange(count), block_of)[start:]
    limit = (lanes * group_blocks + 1) * int(room.max())
    found = lane_segments(places, order, limit)
    if found is None:
        assert not len(order)
        return
    segments, brought = found
    assert segments[0] == 0
    assert segments[-1] == len(order)
    for s, (a, b) in enumerate(pairwise(segments.tolist())):
        assert a < b
        assert (brought[a:b] <= s).all()
        held = order[a:][brought[a:] <= s]
        assert aligned(size[held]).sum() <= limit
    event("carried" if (brought < np.searchsorted(segments, np.arange(len(order)), side="right") - 1).any() else "not")
    for block in np.unique(block_of[order]):
        assert len(np.unique(brought[block_of[order] == block])) == 1
