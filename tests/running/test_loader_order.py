"""A loader's stream is the order's law: the same bits for any threads, any resume, any ranks, any mode."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import trainload as tl
from loading_data import jpegs, write_dts
from trainload.cli import info  # noqa: F401 (registers its verb)
from trainload.cli.app import app

COUNT, PER_BLOCK, BATCH = 61, 13, 4
OPS = [tl.RandomResizedCrop(16), tl.RandomHorizontalFlip()]
few = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    labels = [n % 7 for n in range(COUNT)]
    path = write_dts(tmp_path_factory.mktemp("order") / "set.dts", jpegs(COUNT), labels, PER_BLOCK)
    with tl.open(path) as reader:
        yield reader


def loader_of(ds, **options):
    given_options = {"batch_size": BATCH, "ops": OPS, "seed": 5, "with_ids": True, "workers": 2, "mode": "fully"}
    return tl.ImageLoader(ds, **{**given_options, **options})


def stream_of(batches) -> tuple[np.ndarray, ...]:
    """All batches one after the other: images, labels, ids."""
    parts = [tuple(part.copy() for part in batch) for batch in batches]
    if not parts:
        return np.empty((0, 16, 16, 3), np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    return tuple(np.concatenate(part) for part in zip(*parts))


def assert_equal(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("mode", ["fully", "partial"])
@pytest.mark.parametrize("shuffle", ["none", "group", "full"])
def test_an_epoch_is_its_order_in_every_mode(ds, mode, shuffle):
    options = {"shuffle": shuffle, "group_blocks": 2, "tuning": tl.Tuning(io_workers=1)}
    loader = loader_of(ds, mode=mode, **options)
    reference = loader_of(ds, mode="fully", **options)
    for epoch in range(3):
        images, labels, ids = stream_of(loader)
        assert np.array_equal(ids, loader.epoch_ids(epoch))
        assert np.array_equal(labels, ids % 7)
        assert_equal((images, labels, ids), stream_of(reference))


@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_one_and_eight_threads_give_the_same_bits(ds, mode):
    one = stream_of(
        loader_of(ds, mode=mode, shuffle="group", workers=1, group_blocks=8, tuning=tl.Tuning(io_workers=1, prefetch=1))
    )
    eight = stream_of(
        loader_of(ds, mode=mode, shuffle="group", workers=8, group_blocks=8, tuning=tl.Tuning(io_workers=4, prefetch=6))
    )
    assert_equal(one, eight)


@pytest.mark.parametrize("mode", ["fully", "partial"])
@pytest.mark.parametrize("last", ["short", "drop", "pad"])
def test_resume_at_every_batch_gives_the_rest_of_the_stream(ds, mode, last):
    loader = loader_of(ds, mode=mode, last=last, group_blocks=2, tuning=tl.Tuning(io_workers=1))
    parts, states = [], [loader.state_dict()]
    for batch in loader:
        parts.append(tuple(part.copy() for part in batch))
        states.append(loader.state_dict())
    other = loader_of(ds, mode=mode, last=last, seed=99, workers=1, group_blocks=3, tuning=tl.Tuning(io_workers=1))
    for n, state in enumerate(states):
        other.load_state_dict(json.loads(json.dumps(state)))
        assert_equal(stream_of(other), stream_of(parts[n:]))
        assert other.state_dict() == loader.state_dict()


def test_a_state_is_small_and_plain(ds):
    state = loader_of(ds).state_dict()
    assert len(json.dumps(state)) < 1024
    assert all(isinstance(value, int | str) for value in state.values())


@few
@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 8]), st.integers(0, 3)), min_size=1, max_size=4),
    st.sampled_from(["fully", "partial"]),
    st.sampled_from(["group", "full"]),
)
def test_ranks_that_change_in_mid_epoch_share_one_stream(ds, plan, mode, shuffle):
    expected = stream_of(loader_of(ds, shuffle=shuffle, last="short"))
    state, parts = None, []
    for world, steps in [*plan, (1, 1000)]:
        ranks = [loader_of(ds, mode=mode, shuffle=shuffle, rank=r, world_size=world, workers=1) for r in range(world)]
        for loader in ranks:
            if state is not None:
                loader.load_state_dict(state)
        iterators = [iter(loader) for loader in ranks]
        for _ in range(steps):
            batches: list[Any] = [next(iterator, None) for iterator in iterators]
            if batches[0] is None:
                assert batches == [None] * world
                break
            parts += [tuple(part.copy() for part in batch) for batch in batches]
            assert len({json.dumps(loader.state_dict()) for loader in ranks}) == 1
        state = ranks[0].state_dict()
        if state["epoch"] == 1:
            break
    assert_equal(stream_of(parts), expected)


def test_breaking_out_goes_on_with_the_next_epoch(ds):
    loader = loader_of(ds)
    for _ in loader:
        break
    assert loader.state_dict()["position"] == BATCH
    assert np.array_equal(stream_of(loader)[2], loader.epoch_ids(1))


def test_set_epoch_names_the_next_epoch_and_keeps_a_loaded_position(ds):
    loader = loader_of(ds)
    with pytest.raises(tl.UsageError, match="epoch"):
        loader.set_epoch(-1)
    loader.set_epoch(np.int64(7))
    assert json.loads(json.dumps(loader.state_dict()))["epoch"] == 7
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (7, BATCH)
    other = loader_of(ds)
    other.load_state_dict(state)
    other.set_epoch(7)
    assert_equal(stream_of(other), stream_of(iterator))


def test_a_state_of_another_set_is_refused(ds):
    state = loader_of(ds).state_dict()
    with pytest.raises(tl.UsageError, match="another set"):
        loader_of(ds, indices=range(10)).load_state_dict(state)
    wrong: dict[str, list[Any]] = {
        "position": [10**6],
        "epoch": [-1],
        "shuffle": ["magic"],
        "version": [0, 3, "2"],
        "seed": ["1"],
    }
    for name, value in ((name, value) for name, values in wrong.items() for value in values):
        with pytest.raises(tl.UsageError, match=name):
            loader_of(ds).load_state_dict({**state, name: value})
    with pytest.raises(tl.UsageError, match="entries"):
        loader_of(ds).load_state_dict({"epoch": 0})


def test_indices_weights_and_subset_choose_the_samples(ds):
    chosen = [3, 40, 7, 60, 12]
    loader = loader_of(ds, indices=chosen, shuffle="none")
    assert stream_of(loader)[2].tolist() == chosen
    assert sorted(stream_of(loader.subset([1, 2], shuffle="full"))[2]) == [1, 2]
    mask = np.zeros(COUNT, bool)
    mask[chosen] = True
    assert sorted(stream_of(loader_of(ds, indices=mask, mode="partial"))[2]) == sorted(chosen)
    weights = np.zeros(COUNT)
    weights[[5, 6]] = 1, 3
    for mode in ("fully", "partial"):
        drawn = stream_of(loader_of(ds, weights=weights, mode=mode))[2]
        assert len(drawn) == COUNT
        assert set(drawn) == {5, 6}


@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_any_batch_at_once_is_the_batch_of_the_stream(ds, mode):
    loader = loader_of(ds, mode=mode)
    for epoch in range(2):
        for n, batch in enumerate(loader):
            if n in (0, 3, 7):
                assert_equal(loader.batch(batch[2], epoch=epoch), batch)


def test_a_batch_at_once_may_hold_samples_outside_of_the_indices(ds):
    loader, whole = loader_of(ds, indices=[1, 2, 3]), loader_of(ds)
    for _ in loader:
        pass
    assert_equal(loader.batch([2, 50, 60], epoch=0), whole.batch([2, 50, 60], epoch=0))


def test_every_rank_has_as_many_batches_as_len_says(ds):
    for last in ("short", "drop", "pad"):
        loaders = [loader_of(ds, rank=r, world_size=3, last=last) for r in range(3)]
        counts = {sum(1 for _ in loader) for loader in loaders}
        assert counts == {len(loaders[0])}


def test_shuffle_quality_is_one_for_a_full_shuffle_and_low_for_sorted_classes(ds):
    by_class = np.argsort(np.arange(COUNT) % 7, kind="stable")
    assert loader_of(ds, shuffle="full").shuffle_quality().ratio == pytest.approx(1.0, abs=0.15)
    assert loader_of(ds, shuffle="none", indices=by_class).shuffle_quality().ratio < 0.5


def test_info_shows_the_shuffle_quality(ds):
    done = CliRunner().invoke(app, ["info", ds.path, "--shuffle", "--batch-size", "20", "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.output)
    quality = loader_of(ds, batch_size=20, shuffle="full", seed=0).shuffle_quality()
    assert facts["shuffle_full"]["ratio"] == round(quality.ratio, 4)
    assert facts["shuffle_none"]["classes_per_batch"] == 7
    assert "shuffle_group" in facts


def test_validation_sets_keep_their_order_unless_asked(tmp_path):
    path = write_dts(tmp_path / "val.dts", jpegs(9), [0] * 9, 4, training=False)
    assert stream_of(loader_of(path))[2].tolist() == list(range(9))
    assert stream_of(loader_of(path, shuffle="full"))[2].tolist() != list(range(9))


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"mode": "some"},
        {"shuffle": "some"},
        {"last": "some"},
        {"on_error": "some"},
        {"verify": "some"},
        {"rank": 1},
        {"rank": 2, "world_size": 2},
        {"seed": -1},
        {"workers": 0},
        {"out": "int3"},
        {"indices": [61]},
        {"indices": [[1]]},
        {"indices": [0.5]},
        {"weights": [1.0]},
        {"weights": np.zeros(COUNT)},
        {"weights": np.ones(COUNT), "shuffle": "full"},
        {"ops": []},
        {"ops": [3]},
    ],
)
def test_arguments_that_cannot_be_are_refused(ds, options):
    with pytest.raises(tl.UsageError):
        loader_of(ds, **options)
