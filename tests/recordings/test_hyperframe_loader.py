"""Loaders of recordings are exact: order, resume, ranks and reads, for any number of threads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainload as tl
from drive_data import equal, write_drive
from present import present
from trainload.recordings.reading.window import Window
from trainload.recordings.reading.window_sequence import WindowSequence
from trainload.recordings.samples.collate import ClipBatch, collate
from trainload.storage.file import FileSource


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("drives")
    for n in range(3):
        write_drive(folder / f"{n}.hfr", seconds=1.0 + n, seed=n)
    return sorted(folder.glob("*.hfr"))


def batches_of(loader: Any) -> list[ClipBatch]:
    return list(loader)


def assert_equal(one: list[ClipBatch], two: list[ClipBatch]) -> None:
    assert [batch.ids.tolist() for batch in one] == [batch.ids.tolist() for batch in two]
    for a, b in zip(one, two):
        for name in a.values:
            one_values = np.asarray(a.values[name])
            assert np.array_equal(one_values, np.asarray(b.values[name]), equal_nan=one_values.dtype.kind == "f")
            assert np.array_equal(a.times[name], b.times[name])


STREAMS = ["lidar/top", "camera"]


@pytest.mark.parametrize("shuffle", ["group", "full", "none"])
def test_a_loader_gives_every_sample_once_and_the_same_for_any_threads(drives: list[Path], shuffle: str) -> None:
    dataset = tl.WindowDataset(drives, streams=STREAMS)
    options: dict[str, Any] = {"batch_size": 5, "shuffle": shuffle, "seed": 3, "vary": "list"}
    one = [batch.ids.tolist() for batch in tl.HyperframeLoader(dataset, workers=1, **options)]
    eight = tl.HyperframeLoader(dataset, workers=8, **options)
    assert [batch.ids.tolist() for batch in eight] == one
    ids = [i for batch in one for i in batch]
    assert sorted(ids) == list(range(len(dataset)))
    assert ids == eight.epoch_ids(0).tolist()
    if shuffle != "none":
        assert eight.epoch_ids(0).tolist() != eight.epoch_ids(1).tolist()


def test_a_loaded_clip_is_the_datasets_clip(drives: list[Path]) -> None:
    dataset = tl.WindowDataset(drives, streams=["odometry"])
    for batch in tl.HyperframeLoader(dataset, batch_size=4, seed=1):
        expected = collate([dataset[int(i)] for i in batch.ids])
        assert_equal([batch], [expected])


@pytest.mark.parametrize("kind", ["sequence", "aligned"])
def test_sequences_and_aligned_frames_load_through_chunks(drives: list[Path], kind: str) -> None:
    if kind == "sequence":
        dataset: Any = tl.SequenceDataset(
            drives, duration="400ms", step="100ms", stride="100ms", streams=["lidar/top", "imu"]
        )
    else:
        using = {"camera": tl.Nearest()}
        dataset = tl.AlignedDataset(
            [tl.align(tl.open_recording(path), to="lidar/top", using=using, allow_host=True) for path in drives]
        )
    seen = []
    for batch in tl.HyperframeLoader(dataset, batch_size=3, seed=1, workers=2):
        assert_equal([batch], [collate([dataset[int(i)] for i in batch.ids], squeeze=dataset.squeeze)])
        seen += batch.ids.tolist()
    assert sorted(seen) == list(range(len(dataset)))


def test_a_loader_resumes_at_any_batch_with_any_number_of_ranks(drives: list[Path]) -> None:
    dataset = tl.WindowDataset(drives, streams=["odometry"])

    def make(**kw: Any) -> Any:
        return tl.HyperframeLoader(dataset, batch_size=4, seed=9, **kw)

    whole = np.concatenate([batch.ids for batch in make()])
    for stop in range(len(make()) + 1):
        loader = make()
        batches = iter(loader)
        taken = [next(batches).ids for _ in range(stop)]
        batches.close()
        state = json.loads(json.dumps(loader.state_dict()))
        if stop == len(loader):
            continue
        streams = []
        for rank in range(2):
            other = make(rank=rank, world_size=2)
            other.load_state_dict(state)
            streams.append([batch.ids for batch in other])
        rest = [ids for step in zip(*streams) for ids in step]
        assert np.concatenate([*taken, *rest]).tolist() == whole.tolist()


@pytest.mark.parametrize("last", ["short", "drop", "pad"])
def test_ranks_get_equally_many_batches_of_an_uneven_epoch(drives: list[Path], last: Any) -> None:
    dataset = tl.WindowDataset(drives, streams=["odometry"])
    assert len(dataset) % (3 * 4)
    ranks = [tl.HyperframeLoader(dataset, batch_size=4, last=last, rank=rank, world_size=3) for rank in range(3)]
    batches = [[batch.ids.tolist() for batch in loader] for loader in ranks]
    assert [len(some) for some in batches] == [len(ranks[0])] * 3
    ids = [i for step in zip(*batches) for batch in step for i in batch]
    assert ids[: len(dataset) // 12 * 12] == ranks[0].epoch_ids(0).tolist()[: len(dataset) // 12 * 12]
    assert len(set(ids)) == (len(dataset) // 12 * 12 if last == "drop" else len(dataset))
    assert {loader.epoch for loader in ranks} == {1}


@pytest.mark.parametrize("workers", [1, 4])
def test_a_group_epoch_reads_every_chunk_once_and_announces_it_a_group_before(
    drives: list[Path], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainload.recordings.samples.chunks.CHUNK_BYTES", 20_000)
    read: list[tuple[str, int]] = []
    original = FileSource.readinto_at

    def counted(source: FileSource, offset: int, buffer: Any) -> None:
        read.append((source.path, offset))
        original(source, offset, buffer)

    dataset = tl.WindowDataset(drives)
    monkeypatch.setattr(FileSource, "readinto_at", counted)
    announced: list[tuple[str, int]] = []
    monkeypatch.setattr(FileSource, "will_need", lambda source, offset, size: announced.append((source.path, offset)))
    loader = tl.HyperframeLoader(dataset, batch_size=3, group_chunks=2, workers=workers, vary="list")
    assert sum(len(batch) for batch in loader) == len(dataset)
    chunks = sum(len(dataset.store.chunks.bounds(n)) - 1 for n in range(len(drives)))
    assert len(read) == len(set(read)) == chunks > 3 * len(drives)
    assert len(announced) == chunks - 2 and set(announced) < set(read)


@pytest.mark.parametrize("streams", [None, ["camera"]])
def test_large_windows_are_read_one_by_one_just_in_time_and_chunks_announced_all_the_same(
    drives: list[Path], streams: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainload.recordings.samples.chunks.CHUNK_BYTES", 20_000)
    dataset = tl.WindowDataset(drives, streams=streams)
    options: dict[str, Any] = {"batch_size": 3, "group_chunks": 2, "workers": 2, "seed": 5}
    chunks = sum(len(dataset.store.chunks.bounds(n)) - 1 for n in range(len(drives)))
    by_chunks = list(tl.HyperframeLoader(dataset, **options))
    monkeypatch.setattr("trainload.recordings.samples.chunks.LARGE_BYTES", 1)
    announced: list[tuple[int, int]] = []
    monkeypatch.setattr(WindowSequence, "will_need", lambda _, k0, k1, streams: announced.append((k0, k1)))
    read: list[int] = []
    real = WindowSequence.read

    def counted(windows: WindowSequence, k0: int, k1: int, *rest: Any, **options: Any) -> list[Window]:
        read.append(k1 - k0)
        return real(windows, k0, k1, *rest, **options)

    monkeypatch.setattr(WindowSequence, "read", counted)
    loader = tl.HyperframeLoader(dataset, **options)
    assert_equal(list(loader), by_chunks)
    assert set(read) == {1} and len(read) > chunks
    assert len(announced) == chunks - 2


def test_what_is_announced_is_what_is_read(drives: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, int]] = []
    announced: list[tuple[int, int]] = []
    monkeypatch.setattr(FileSource, "will_need", lambda _, offset, size: announced.append((offset, offset + size)))
    monkeypatch.setattr(
        "trainload.recordings.reading.frame_reads.MAX_GAP_BYTES", 100
    )  # or every stretch would be the whole chunk
    windows = tl.open_recording(drives[-1]).windows

    def into(source: Any, stretches: Any) -> list[memoryview]:
        read.extend(stretches)
        return [source.read_aligned_at(start, end - start) for start, end in stretches]

    for streams in (None, ["camera"], ["lidar/top", "imu"]):
        windows.will_need(2, 9, streams)
        windows.read(2, 9, streams, into=into)
    assert len(read) > 5 and [(start - start % 64, end) for start, end in announced] == read


def test_views_are_the_frames_themselves_and_nothing_is_copied(drives: list[Path]) -> None:
    dataset = tl.WindowDataset(drives, streams=["odometry", "imu"])
    clips = [dataset[0], dataset[1]]
    batch = collate(clips, vary="views")
    assert batch.stacked_bytes == 0 and not batch.lengths
    for name in dataset.streams:
        for row, clip in zip(batch.values[name], clips):
            assert all(one is two and not present(one).flags.writeable for one, two in zip(row, clip.values[name]))
    seen = 0
    for loaded in tl.HyperframeLoader(dataset, batch_size=4, vary="views"):
        for i, row in zip(loaded.ids, loaded.values["odometry"]):
            assert all(equal(one, present(two)) for one, two in zip(row, dataset[int(i)].values["odometry"]))
            seen += 1
    assert seen == len(dataset)
    with pytest.raises(tl.UsageError, match="vary"):
        collate(clips, vary="copy")  # type: ignore[arg-type]


def test_a_state_of_other_recordings_is_refused(drives: list[Path]) -> None:
    state = tl.HyperframeLoader(tl.WindowDataset(drives[:2]), batch_size=2).state_dict()
    with pytest.raises(tl.UsageError, match="another set"):
        tl.HyperframeLoader(tl.WindowDataset(drives[2]), batch_size=2).load_state_dict(state)


def test_a_damaged_frame_reaches_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "bad.hfr"
    write_drive(path, seconds=1.0)
    with tl.open_recording(path) as reader:
        offset = int(reader.files[0].index["byte_offset"][5])
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    with pytest.raises(tl.FormatError, match="CRC-32"):
        list(tl.HyperframeLoader(tl.WindowDataset(path), batch_size=2, vary="list"))
