"""Windows, sequences and aligned frames give what the recording holds; batches mask gaps."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import trainload as tl
from drive_data import SECOND, equal, write_drive
from present import present
from trainload.recordings.samples.clip import NO_RESIDUAL, NO_TIME, Clip
from trainload.recordings.samples.collate import collate
from trainload.recordings.writing.part_folder import PartFolder
from trainload.recordings.writing.writer import HyperframeWriter


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("drive") / "drive.hfr"
    write_drive(path, seconds=4.0)
    return path


def same(one: Clip, two: Clip) -> bool:
    return one.id == two.id and all(
        len(one.values[name]) == len(two.values[name])
        and all(equal(present(a), present(b)) for a, b in zip(one.values[name], two.values[name]))
        and np.array_equal(one.times[name], two.times[name])
        for name in one.values
    )


def test_a_window_sample_is_the_window(drive: Path) -> None:
    reader, dataset = tl.open_recording(drive), tl.WindowDataset(drive)
    assert len(dataset) == len(reader)
    for k in (0, 7, len(reader) - 1):
        window, clip = reader.window(k), dataset[k]
        assert clip.number == k and (clip.start_ns, clip.end_ns) == (window.start_ns, window.end_ns)
        for name in reader.streams:
            assert clip.times[name].tolist() == [frame.timestamp_ns for frame in window[name]]
            for value, frame in zip(clip.values[name], window[name]):
                expected = frame.array()
                if expected.dtype.names is None:
                    assert np.array_equal(present(value), expected)
                else:  # packed IMU: (n, 6) without its time
                    assert value is not None and value.shape == (len(expected), 6)
                    assert np.array_equal(value[:, :3], expected["acceleration"], equal_nan=True)


def test_windows_are_filtered_by_fill_and_tags(tmp_path: Path) -> None:
    path = tmp_path / "tagged.hfr"
    tags = ["night", {"name": "rain", "start_ns": 2 * SECOND, "end_ns": 5 * SECOND}]
    with HyperframeWriter(path, window="1s", meta={"tags": tags}) as writer:
        a, b = writer.add_stream("a"), writer.add_stream("b")
        for t in range(10):
            writer.append(a, t * SECOND, b"x")
            if t % 4 == 0:
                writer.append(b, t * SECOND + 1, b"y")
    every = tl.WindowDataset(path)
    assert len(tl.WindowDataset(path, tags=["night"])) == len(every)
    assert len(tl.WindowDataset(path, tags=["snow"])) == 0
    rainy = tl.WindowDataset(path, tags=["night", "rain"])
    assert 0 < len(rainy) < len(every)
    assert all(
        clip.start_ns >= 2 * SECOND and clip.end_ns <= 5 * SECOND for clip in map(rainy.__getitem__, range(len(rainy)))
    )
    pairs = tl.AlignedDataset(
        tl.align(tl.open_recording(path), to="a", using={"b": tl.Previous()}), tags=["night", "rain"]
    )
    assert [pairs[i].start_ns // SECOND for i in range(len(pairs))] == [2, 3, 4, 5]
    full = tl.WindowDataset(path, require={"b": 1})
    assert [clip.number for clip in map(full.__getitem__, range(len(full)))] == [
        k for k in range(len(every)) if len(every[k].values["b"]) >= 1
    ]


def test_what_an_import_keeps_beside_the_sensors_is_read_where_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "imported.hfr"
    with HyperframeWriter(path, window="1s") as writer:
        for name in ("a", "import/envelopes"):
            writer.append(writer.add_stream(name), 0, name.encode())
    assert list(tl.WindowDataset(path)[0].values) == ["a"]
    assert list(tl.WindowDataset(path, streams=["import/envelopes"])[0].values) == ["import/envelopes"]


def test_a_sequence_takes_the_nearest_frame_of_every_step(drive: Path) -> None:
    reader = tl.open_recording(drive)
    dataset = tl.SequenceDataset(
        drive,
        duration="1s",
        step="200ms",
        stride="500ms",
        frames_per_stream={"imu": 100},
        streams=["lidar/top", "camera", "imu"],
    )
    assert len(dataset) == 6
    for i in range(len(dataset)):
        clip = dataset[i]
        for name in ("lidar/top", "camera"):
            stream_times = reader.timestamps(name)
            wanted = clip.start_ns + np.arange(5) * SECOND // 5
            nearest = np.abs(stream_times[None] - wanted[:, None]).argmin(axis=1)
            assert clip.times[name].tolist() == stream_times[nearest].tolist()
            assert clip.residuals[name].tolist() == (stream_times[nearest] - wanted).tolist()
            for value, position in zip(clip.values[name], nearest):
                assert np.array_equal(present(value), reader.read_at_index(name, int(position)).array())
        assert len(clip.values["imu"]) == 100 and all(
            value is not None and value.shape == (6,) for value in clip.values["imu"]
        )


def test_a_sequence_with_a_missing_frame_is_left_out_or_masked(drive: Path) -> None:
    options: dict[str, Any] = {
        "duration": "1s",
        "step": "50ms",
        "streams": ["lidar/top", "camera"],
        "max_residual": "20ms",
    }
    with pytest.raises(tl.UsageError, match=r"none of \d+ clips .* is left: 'lidar/top'"):  # it comes every 100 ms
        tl.SequenceDataset(drive, **options)
    clip = tl.SequenceDataset(drive, **options, complete=False)[0]
    missing = [value is None for value in clip.values["lidar/top"]]
    assert 5 < sum(missing) < 15
    assert (
        (clip.times["lidar/top"] == NO_TIME).tolist()
        == missing
        == (clip.residuals["lidar/top"] == NO_RESIDUAL).tolist()
    )


def test_an_aligned_sample_is_its_pair(drive: Path) -> None:
    reader = tl.open_recording(drive)
    using = {"camera": tl.Nearest(max="20ms"), "imu": tl.Interpolate(), "odometry": tl.Previous()}
    pairs = tl.align(reader, to="lidar/top", using=using, allow_host=True)
    dataset = tl.AlignedDataset(pairs, max_residual="20ms")
    kept = pairs.select(max_residual="20ms")
    assert 0 < len(dataset) == len(kept)
    for row in (0, len(kept) - 1):
        clip, pair = dataset[row], kept[row]
        assert np.array_equal(
            present(clip.values["lidar/top"][0]), present(reader.read("lidar/top", pair.time_ns)).array()
        )
        assert np.array_equal(
            present(clip.values["camera"][0]), reader.read_at_index("camera", pair.index["camera"]).array()
        )
        assert clip.residuals["camera"][0] == pair.residual_ns["camera"]
        acceleration = kept.values("imu")["acceleration"][row]
        assert np.array_equal(present(clip.values["imu"][0])[:3], acceleration, equal_nan=True)
    batch = collate([dataset[0], dataset[1]], squeeze=dataset.squeeze)
    pictures = batch.values["camera"]
    assert isinstance(pictures, np.ndarray) and pictures.shape == (2, 24, 32, 3)
    assert batch.masks["camera"].tolist() == [True, True]


@pytest.mark.parametrize("chunk_bytes", [1, 8 << 20])
def test_late_frames_and_the_seams_between_parts_are_no_gaps(
    tmp_path: Path, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainload.recordings.samples.chunks.CHUNK_BYTES", chunk_bytes)
    times = [*range(0, 600, 10), *range(605, 700, 10), 333, 337, *range(705, 1000, 10)]  # two come late
    with HyperframeWriter(
        tmp_path / "part-00000.hfr", window=50, lateness=0, part_folder=PartFolder(tmp_path, most_ns=300)
    ) as out:
        stream = out.add_stream("s", dtype="<i8")
        for time in times:
            out.append(stream, time, np.int64(time).tobytes())
    drive = tl.open_recording(tmp_path)
    assert len(drive.files) > 2 and any(frame.late for frame in drive.iter_range("s", 0, 2000))
    windows = tl.WindowDataset(drive)
    clips = tl.SequenceDataset(drive, duration=30, step=3, stride=10)
    for dataset in (windows, clips):
        for batch in tl.HyperframeLoader(dataset, batch_size=3, group_chunks=2, workers=2):
            values = batch.values["s"].reshape(batch.masks["s"].shape)
            assert np.array_equal(values[batch.masks["s"]], batch.times["s"][batch.masks["s"]])
            for row, i in enumerate(batch.ids):
                assert dataset[int(i)].times["s"].tolist() == batch.times["s"][row][batch.masks["s"][row]].tolist()
    assert sorted(int(t) for i in range(len(windows)) for t in windows[i].times["s"]) == sorted(times)
    assert {int(time) for i in range(len(clips)) for time in clips[i].times["s"]} >= {333, 337}


def test_what_varies_is_padded_or_listed_and_masked() -> None:
    clouds = [np.ones((n, 4), np.float32) * n for n in (2, 3, 1)]
    times = np.array([1], np.int64)
    clips = [
        Clip(
            0, 0, 0, 0, 9, {"lidar": [clouds[0], clouds[1]]}, {"lidar": np.array([1, 2])}, {"lidar": np.array([0, 0])}
        ),
        Clip(1, 0, 1, 9, 19, {"lidar": [clouds[2]]}, {"lidar": times}, {"lidar": times}),
        Clip(2, 0, 2, 19, 29, {"lidar": [None]}, {"lidar": np.array([NO_TIME])}, {"lidar": np.array([NO_RESIDUAL])}),
    ]
    padded = collate(clips)
    assert isinstance(padded.values["lidar"], np.ndarray) and padded.values["lidar"].shape == (3, 2, 3, 4)
    assert padded.lengths["lidar"].tolist() == [[2, 3], [1, 0], [0, 0]]
    assert padded.masks["lidar"].tolist() == [[True, True], [True, False], [False, False]]
    assert padded.values["lidar"].sum() == sum(cloud.sum() for cloud in clouds)
    listed = collate(clips, vary="list")
    assert [[None if v is None else v.shape for v in row] for row in listed.values["lidar"]] == [
        [(2, 4), (3, 4)],
        [(1, 4)],
        [None],
    ]
    with pytest.raises(tl.UsageError, match="up to 2"):
        collate(clips, squeeze=True)


def test_frames_of_other_numbers_are_listed_not_cast() -> None:
    rows: list[list[np.ndarray | None]] = [[np.full((2, 2), 7, np.uint8)], [np.full((2, 2), 700, np.uint16)]]
    clips = [Clip(n, 0, n, 0, 0, {"s": row}, {"s": np.array([0])}, {"s": np.array([0])}) for n, row in enumerate(rows)]
    assert [present(row[0]).max() for row in collate(clips).values["s"]] == [7, 700]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.lists(hnp.arrays(np.int16, st.tuples(st.integers(0, 4), st.integers(1, 2))), max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_collating_loses_no_number(rows: list[list[np.ndarray]]) -> None:
    clips = [
        Clip(n, 0, n, 0, 0, {"s": list(row)}, {"s": np.arange(len(row))}, {"s": np.zeros(len(row), np.int64)})
        for n, row in enumerate(rows)
    ]
    batch = collate(clips)
    for n, row in enumerate(rows):
        assert batch.masks["s"][n].sum() == len(row)
        for t, value in enumerate(row):
            found = present(batch.values["s"][n][t])
            assert np.array_equal(found[: len(value)], value)
            assert not found[len(value) :].any()


def test_a_second_epoch_through_the_cache_is_the_same_and_reads_nothing(drive: Path) -> None:
    dataset = tl.WindowDataset(drive, cache_bytes=64 << 20)
    first = [dataset[k] for k in range(len(dataset))]
    assert dataset.store.cache.hits == 0
    for file in dataset.store.recordings[0].files:
        file.source.close()
    assert all(same(one, dataset[k]) for k, one in enumerate(first))
    assert dataset.store.cache.hit_rate == 0.5


def test_datasets_pickle_without_an_open_file(drive: Path) -> None:
    pairs = tl.align(tl.open_recording(drive), to="lidar/top", using={"odometry": tl.Nearest()})
    sequences = tl.SequenceDataset(drive, duration="400ms", step="100ms", streams=["lidar/top", "imu"])
    for dataset in (tl.WindowDataset(drive), sequences, tl.AlignedDataset(pairs)):
        before = dataset[1]
        copy = pickle.loads(pickle.dumps(dataset))
        assert all("files" not in reader.__dict__ for reader in copy.store.recordings)
        assert same(copy[1], before)


def test_samples_say_where_host_and_hardware_clocks_meet(drive: Path) -> None:
    mixed, alone = ["lidar/top", "camera"], ["lidar/top", "odometry"]  # the camera's clock is the host's
    reader = tl.open_recording(drive)
    pairs = {
        name: tl.align(reader, to="lidar/top", using={name: tl.Nearest()}, allow_host=True)
        for name in (mixed[1], alone[1])
    }
    for streams, expected in ((mixed, True), (alone, False)):
        datasets = (
            tl.WindowDataset(drive, streams=streams),
            tl.SequenceDataset(drive, duration="500ms", step="100ms", streams=streams),
            tl.AlignedDataset(pairs[streams[1]].select(max_residual="1s")),
        )
        for dataset in datasets:
            assert dataset[0].mixed_clocks is expected
            for batch in tl.HyperframeLoader(dataset, batch_size=2):
                assert batch.mixed_clocks.tolist() == [expected] * len(batch)
    both = tl.AlignedDataset(list(pairs.values()))
    assert {bool(clip.mixed_clocks) for clip in map(both.__getitem__, range(len(both)))} == {True, False}
