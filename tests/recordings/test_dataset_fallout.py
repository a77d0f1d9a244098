"""What falls out of a data set is said per stream; sparse topics empty nothing in silence; batches keep their form."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainload as tl
from trainload.recordings.samples.clip import Clip
from trainload.recordings.samples.collate import collate
from trainload.recordings.samples.sequences import span_fallout
from trainload.recordings.writing.writer import HyperframeWriter

S = 1_000_000_000
STEP = S // 10
START = 1_700_000_000 * S


def write(path: Path, **streams: list[float]) -> Path:
    """Streams of one float32 per frame, at so many seconds after START."""
    due = sorted((START + round(time * S), name) for name, times in streams.items() for time in times)
    with HyperframeWriter(path, window="1s", overwrite=True) as writer:
        ids = {name: writer.add_stream(name, dtype="<f4", shape=(1,)) for name in streams}
        for time, name in due:
            writer.append(ids[name], time, np.float32(time % 997).tobytes())
    return path


def every(step: float, first: float = 0.0, last: float = 20.0) -> list[float]:
    return np.arange(first, last, step).tolist()


def test_sparse_topics_are_left_out_with_a_warning_and_the_rest_is_sampled(tmp_path: Path) -> None:
    drive = write(tmp_path / "a.hfr", lidar=every(0.1), camera=every(0.05, 5.0), map=[0.0, 9.0, 18.0], tf_static=[0.0])
    with pytest.warns(UserWarning, match=r"'map': a frame every 9\.000 s; 'tf_static': 1 frame.*tl\.Previous\(\)"):
        dataset = tl.SequenceDataset(drive, duration="2s", step="500ms")
    assert dataset.streams == ("lidar", "camera") and len(dataset) == 7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = tl.SequenceDataset(drive, duration="2s", step="500ms", streams=["lidar", "camera"])
    assert chosen.starts.tolist() == dataset.starts.tolist()
    text = str(dataset.report())
    assert "left out: 1 frame" in text and "before its first frame" in text and "clips of 2.000 s" in repr(dataset)


def test_the_stream_that_leaves_nothing_is_named(tmp_path: Path) -> None:
    drive = write(tmp_path / "a.hfr", lidar=every(0.1), tf_static=[3.0], late=every(0.1, 19.5), slow=every(5.0))
    options: dict[str, Any] = {"duration": "2s", "step": "500ms"}
    with pytest.raises(tl.UsageError, match=r"is left: 'tf_static', with 1 frames, .* tl\.Previous\(\)"):
        tl.SequenceDataset(drive, streams=["lidar", "tf_static"], **options)
    with pytest.raises(tl.UsageError, match=r"'late', .*before its first frame"):
        tl.SequenceDataset(drive, streams=["lidar", "late"], **options)
    with pytest.raises(tl.UsageError, match=r"'slow', .*no frame within 100\.000 ms"):
        tl.SequenceDataset(drive, streams=["lidar", "slow"], max_residual="100ms", **options)
    with pytest.raises(tl.UsageError, match=r"without the tags night: 9"):
        tl.SequenceDataset(drive, streams=["lidar"], tags=["night"], **options)
    with pytest.raises(tl.UsageError, match=r"span less, 19\.900 s"):
        tl.SequenceDataset(drive, streams=["lidar"], duration="1min", step="1s")
    with pytest.raises(tl.UsageError, match=r"no stream can be sampled .*'tf_static': 1 frame"):
        tl.SequenceDataset(write(tmp_path / "b.hfr", tf_static=[3.0]), **options)


def test_windows_and_aligned_times_name_the_stream_too(tmp_path: Path) -> None:
    drive = write(tmp_path / "a.hfr", lidar=every(0.1), camera=every(0.1, 10.02))
    with pytest.raises(tl.UsageError, match=r"none of \d+ windows is left: 'camera', .*fewer than 99"):
        tl.WindowDataset(drive, require={"camera": 99, "lidar": 1})
    half = tl.WindowDataset(drive, require={"camera": 1})
    assert 0 < len(half) < 20 and "with fewer than 1" in str(half.report()) and f"{len(half)} of" in repr(half)
    pairs = tl.align(tl.open_recording(drive), to="lidar", using={"camera": tl.Nearest(max="30ms")})
    with pytest.raises(tl.UsageError, match=r"'camera', .*farther off than 1\.000 ms"):
        tl.AlignedDataset(pairs.select(), max_residual="1ms")
    aligned = tl.AlignedDataset(pairs)
    assert len(aligned) == 100 and "100 unmatched" in str(aligned.report())


@given(
    st.lists(st.lists(st.integers(0, 60), max_size=6).map(sorted), min_size=1, max_size=3),
    st.integers(1, 12),
    st.integers(1, 9),
)
@settings(deadline=None)
def test_what_falls_out_is_what_the_slow_count_says(streams: list[list[int]], duration: int, stride: int) -> None:
    fallout, starts = span_fallout({str(n): np.array(t, np.int64) for n, t in enumerate(streams)}, duration, stride)
    filled = [times for times in streams if times]
    if not filled:
        assert not len(starts) and not fallout.possible
        return
    origin = max(times[0] for times in filled)
    low, high = min(times[0] for times in filled), max(times[-1] for times in filled)
    grid = [t for t in range(-100, 200) if (t - origin) % stride == 0 and low <= t and t + duration <= high]
    assert fallout.possible == len(grid)
    whole = [t for t in grid if all(times and times[0] <= t and t + duration <= times[-1] for times in streams)]
    assert starts.tolist() == whole
    for stream, times in zip(fallout.streams, streams):
        early = sum(t < times[0] for t in grid) if times else 0
        late = sum(t + duration > times[-1] for t in grid) if times else 0
        assert stream.lost.get("before its first frame", 0) == early
        assert stream.lost.get("after its last frame", 0) == late
        assert stream.lost.get("in recordings where it has no frame", 0) == (0 if times else len(grid))


def clip(n: int, *frames: np.ndarray | None) -> Clip:
    times = np.zeros(len(frames), np.int64)
    return Clip(n, 0, n, 0, 0, {"s": list(frames)}, {"s": times}, {"s": times})


@pytest.mark.parametrize("vary", ["pad", "list"])
def test_lengths_are_there_whatever_the_data(vary: str) -> None:
    two, three = np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)
    for clips, expected in (
        ([clip(0, two, two)], [[2, 2]]),
        ([clip(0, two), clip(1, two)], [[2], [2]]),
        ([clip(0, two, three)], [[2, 3]]),
        ([clip(0, None)], [[0]]),
        ([clip(0, two, None), clip(1)], [[2, 0], [0, 0]]),
        ([clip(0, two), clip(1, np.ones((5, 9), np.float32))], [[2], [5]]),
        ([clip(0, np.float32(1)[()])], [[1]]),  # type: ignore[index]
    ):
        clips = [
            Clip(
                c.id,
                0,
                0,
                0,
                0,
                {"s": [None if v is None else np.asarray(v) for v in c.values["s"]]},
                c.times,
                c.residuals,
            )
            for c in clips
        ]
        assert collate(clips, vary=vary).lengths["s"].tolist() == expected  # type: ignore[arg-type]


def test_streams_of_bytes_are_named_where_a_batch_would_have_them(tmp_path: Path) -> None:
    with HyperframeWriter(tmp_path / "a.hfr", window="1s") as writer:
        for name, encoding in (("video", "h264"), ("tf", "cdr"), ("jpg", "jpeg"), ("own", "raw")):
            stream = writer.add_stream(name, encoding=encoding)
            for k in range(30):
                writer.append(stream, k * STEP, b"x" * (k + 1))
    with pytest.warns(UserWarning, match=r"'video' \(h264\), 'tf' \(cdr\)\. .*decode=True") as said:
        tl.WindowDataset(tmp_path / "a.hfr")
    assert "jpg" not in str(said[0].message) and "own" not in str(said[0].message)


def test_torch_has_numbers_by_name_where_records_carry_text(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from trainload.torch import HyperframeLoader, WindowDataset

    box = [("size", "<f8", (3,)), ("token", "|S3"), ("category", "<i4")]
    with HyperframeWriter(tmp_path / "a.hfr", window="1s") as writer:
        boxes, names = writer.add_stream("boxes", dtype=box, shape=(-1,)), writer.add_stream("names", dtype="|S4")
        for k in range(4):
            rows = np.array([((k, 2, 3), b"abc", k + n) for n in range(k + 1)], box)
            writer.append(boxes, k * S * 2, rows.tobytes())
            writer.append(names, k * S * 2, b"name")
    dataset = WindowDataset(tmp_path / "a.hfr", streams=["boxes"])
    with pytest.warns(UserWarning, match="'boxes': token are text"):
        batch = next(iter(HyperframeLoader(dataset, batch_size=4, shuffle="none")))
    assert set(batch.values["boxes"]) == {"size", "category"}
    assert batch.values["boxes"]["size"].shape == (4, 1, 4, 3) and batch.values["boxes"]["size"].dtype == torch.float64
    assert batch.values["boxes"]["category"][3, 0].tolist() == [3, 4, 5, 6]
    assert batch.lengths["boxes"].tolist() == [[1], [2], [3], [4]]
    assert batch.to("cpu", copy=True).values["boxes"]["size"].shape == (4, 1, 4, 3)
    with pytest.raises(tl.UsageError, match=r"'names' holds .*no tensor holds"):
        next(iter(HyperframeLoader(WindowDataset(tmp_path / "a.hfr", streams=["names"]), batch_size=1)))


def test_times_are_whole_nanoseconds_or_written_with_a_unit(tmp_path: Path) -> None:
    drive = tl.open_recording(write(tmp_path / "a.hfr", s=every(0.1)))
    first = START + 15 * STEP
    reads: tuple[Any, ...] = (drive.read, drive.read_before, drive.read_nearest, drive.read_at)
    time: Any
    for read in reads:
        for time in (first, np.int64(first), "1.5s", "1500ms", str(first)):
            frame = read("s", time)
            assert frame is not None and frame.timestamp_ns == first
        for time in (1.5, np.float64(1.5), np.float32(2), True, None, "soon"):
            with pytest.raises(tl.UsageError, match="time"):
                read("s", time)
    assert [f.timestamp_ns for f in drive.read_range("s", "1s", "1.2s")] == [START + 10 * STEP, START + 11 * STEP]
    assert len(list(drive.frames(start_ns="1s", end_ns=START + 2 * S))) == 10
    for call in (
        lambda: drive.read_range("s", 0, 2.5),  # type: ignore[arg-type]
        lambda: list(drive.frames(start_ns=1.5)),  # type: ignore[arg-type]
        lambda: list(drive.windows.between(0.5, None)),  # type: ignore[arg-type]
        lambda: tl.Nearest(max=0.02),  # type: ignore[arg-type]
        lambda: tl.Interpolate(0.5),  # type: ignore[arg-type]
        lambda: tl.SequenceDataset(drive, duration=2.0, step=1),  # type: ignore[arg-type]
        lambda: tl.align(drive, every=0.1),  # type: ignore[arg-type]
    ):
        with pytest.raises(tl.UsageError, match="nanoseconds"):
            call()
    assert len(tl.SequenceDataset(drive, duration=np.int64(2 * S), step=np.int64(S), streams=["s"])) == 9  # type: ignore[arg-type]
