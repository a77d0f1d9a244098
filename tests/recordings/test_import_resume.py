"""An interrupted import goes on where it stopped and ends as if nothing had happened."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainload as tl
from child_processes import running
from trainload.errors import UsageError
from trainload.recordings.aligning.recording import RecordingTimes
from trainload.recordings.importers.columns import Column, ColumnSource
from trainload.recordings.importers.import_source import import_source
from trainload.recordings.importers.logs.mcap.source import McapSource
from trainload.recordings.importers.source import Damage, SourceFrame, SourceStream
from trainload.recordings.writing import compressor

mcap_writer = pytest.importorskip("mcap.writer")
MS = 1_000_000


def write_log(path: Path, topics: tuple[str, ...] = ("/a", "/b"), count: int = 400) -> Path:
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        writer = mcap_writer.Writer(file, chunk_size=10_000)
        writer.start()
        channels = [writer.register_channel(topic, "raw", 0) for topic in topics]
        for k in range(count):
            late = int(rng.integers(0, 40))  # about in order, as logs are
            writer.add_message(channels[k % len(channels)], (1000 + 10 * k - late) * MS, rng.bytes(300), k, k)
        writer.finish()
    return path


class Interrupted(McapSource):
    """A log whose import is interrupted after `after` frames."""

    after = 0

    def items(self):
        count = 0
        for item in super().items():
            count += isinstance(item, SourceFrame)
            if count == self.after:
                raise KeyboardInterrupt
            yield item


def interrupt(source: Path, out: Path, after: int, *, resume: bool = False) -> None:
    log = Interrupted(source)
    log.after = after
    with pytest.raises(KeyboardInterrupt):
        import_source(log, out, codec="zstd", resume=resume)
    assert not out.exists()
    assert Path(f"{out}.tmp").exists()


def frames_of(path: Path) -> dict[str, list[tuple]]:
    with tl.open_recording(path) as drive:
        return {
            name: sorted(
                (frame.stream_index, frame.timestamp_ns, bytes(frame.data))
                for frame in drive.iter_range(name, 0, 1 << 62)
            )
            for name in drive.streams
        }


def test_a_resumed_import_equals_one_that_was_not_interrupted(tmp_path):
    source = write_log(tmp_path / "log.mcap")
    import_source(McapSource(source), tmp_path / "whole.hfr", codec="zstd")
    out = tmp_path / "drive.hfr"
    interrupt(source, out, 150)
    interrupt(source, out, 300, resume=True)
    report = import_source(McapSource(source), out, codec="zstd", resume=True)
    assert frames_of(out) == frames_of(tmp_path / "whole.hfr")
    assert report.window.reason == "window of the import that was interrupted"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drive.hfr", "log.mcap", "whole.hfr"]


def test_windows_that_were_committed_are_not_compressed_again(tmp_path, monkeypatch):
    source, out = write_log(tmp_path / "log.mcap"), tmp_path / "drive.hfr"
    interrupt(source, out, 300)
    compressed = []
    real = compressor.encode_payload  # type: ignore[attr-defined]

    def counted(*args):
        compressed.append(args)
        return real(*args)

    monkeypatch.setattr(compressor, "encode_payload", counted)
    import_source(McapSource(source), out, codec="zstd", resume=True)
    assert 100 < len(compressed) < 200


def test_a_resumed_file_is_laid_out_as_one_that_was_not_interrupted(tmp_path):
    source = write_log(tmp_path / "log.mcap")
    import_source(McapSource(source), tmp_path / "whole.hfr", codec="zstd")
    interrupt(source, tmp_path / "drive.hfr", 200)
    import_source(McapSource(source), tmp_path / "drive.hfr", codec="zstd", resume=True)
    assert_same_layout(tmp_path / "drive.hfr", tmp_path / "whole.hfr")


def assert_same_layout(path: Path, other: Path) -> None:
    with tl.open_recording(path) as drive, tl.open_recording(other) as whole:
        assert drive.files[0].index.tobytes() == whole.files[0].index.tobytes()


def test_packed_samples_are_neither_lost_nor_repeated(tmp_path):
    def columns(stop_after: int) -> ColumnSource:
        rows, calls = np.arange(1000.0), []

        def load(index: int) -> bytes:
            calls.append(index)
            if len(calls) == stop_after:
                raise KeyboardInterrupt
            return rows[index].tobytes()

        imu = SourceStream("imu", "imu", dtype=rows.dtype, packed=True)
        camera = SourceStream("camera", "camera", "jpeg")
        times = np.arange(1000) * 5 * MS
        return ColumnSource([Column(imu, times, load), Column(camera, times[::10] + MS, lambda k: b"%d" % k)])

    out = tmp_path / "drive.hfr"
    with pytest.raises(KeyboardInterrupt):
        import_source(columns(700), out)
    import_source(columns(0), out, resume=True)
    import_source(columns(0), tmp_path / "whole.hfr")
    assert frames_of(out) == frames_of(tmp_path / "whole.hfr")
    with tl.open_recording(out) as drive:
        assert RecordingTimes(drive).values("imu").tolist() == list(range(1000))


def test_a_killed_import_is_resumed(tmp_path):
    source, out = write_log(tmp_path / "log.mcap", count=6000), tmp_path / "drive.hfr"
    script = (
        "import sys, time\nfrom trainload.recordings.importers.logs.mcap.source import McapSource\n"
        "from trainload.recordings.importers.import_source import import_source\n"
        "import_source(McapSource(sys.argv[1]), sys.argv[2], progress=lambda *_: time.sleep(0.05))\n"
    )
    tmp = Path(f"{out}.tmp")
    deadline = time.monotonic() + 30
    with running(script, source, out):  # killed where the block ends
        while not (tmp.exists() and tmp.stat().st_size > 100_000) and time.monotonic() < deadline:
            time.sleep(0.01)
    import_source(McapSource(source), out, resume=True)
    import_source(McapSource(source), tmp_path / "whole.hfr")
    assert frames_of(out) == frames_of(tmp_path / "whole.hfr")


def test_another_source_is_refused(tmp_path):
    out = tmp_path / "drive.hfr"
    interrupt(write_log(tmp_path / "log.mcap"), out, 200)
    other = write_log(tmp_path / "other.mcap", topics=("/x", "/y"))
    with pytest.raises(UsageError, match="another source"):
        import_source(McapSource(other), out, resume=True)


def test_resuming_what_was_never_begun_is_an_import(tmp_path):
    report = import_source(McapSource(write_log(tmp_path / "log.mcap")), tmp_path / "drive.hfr", resume=True)
    assert report.summary.frames > 400


class Disordered:
    """Samples and messages with times up to 30 windows behind newer ones; interrupted before item `stop_before`."""

    def __init__(self, seed: int, stop_before: int = -1) -> None:
        self.rng, self.stop_before = random.Random(seed), stop_before
        self.damage = Damage()
        self.channels: list[Any] = []
        self.notes: list[str] = []
        self.meta: dict[str, Any] = {}

    def survey(self):
        return {}

    def progress(self):
        return 0, 1

    def items(self):
        yield SourceStream("imu", "imu", dtype=np.dtype("<u4"), packed=True)
        yield SourceStream("can", "can")
        for n in range(600):
            if n == self.stop_before:
                raise KeyboardInterrupt
            late = self.rng.choice((0, 0, 0, 30, 300, 1500)) * MS
            yield SourceFrame(("imu", "can")[n % 2], 10**18 + n * 5 * MS - late, np.uint32(n).tobytes())


@pytest.mark.parametrize("seed", range(5))
def test_late_samples_are_neither_lost_nor_repeated(tmp_path, seed):
    out = tmp_path / "drive.hfr"
    for stop_before in sorted(random.Random(seed).sample(range(100, 600), 2)):
        with pytest.raises(KeyboardInterrupt):
            import_source(Disordered(seed, stop_before), out, resume=True, window="50ms")
    import_source(Disordered(seed), out, resume=True, window="50ms")
    import_source(Disordered(seed), tmp_path / "whole.hfr", window="50ms")
    assert frames_of(out) == frames_of(tmp_path / "whole.hfr")
    assert_same_layout(out, tmp_path / "whole.hfr")


def test_a_source_whose_times_are_others_is_refused(tmp_path):
    out = tmp_path / "drive.hfr"
    with pytest.raises(KeyboardInterrupt):
        import_source(Disordered(1, 300), out, window="50ms")
    with pytest.raises(UsageError, match="another source: from time"):
        import_source(Disordered(2), out, resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["drive.hfr.resume"]


def test_damage_in_the_unfinished_file_costs_nothing(tmp_path):
    source, out = write_log(tmp_path / "log.mcap"), tmp_path / "drive.hfr"
    interrupt(source, out, 300)
    unfinished = Path(f"{out}.tmp")
    data = bytearray(unfinished.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 200] = bytes(200)
    unfinished.write_bytes(data)
    import_source(McapSource(source), out, codec="zstd", resume=True)
    import_source(McapSource(source), tmp_path / "whole.hfr", codec="zstd")
    assert_same_layout(out, tmp_path / "whole.hfr")


def leave_a_recording(path: Path, windows: int = 50) -> Path:
    """The .tmp file of a recording, no import, that stopped."""
    writer = tl.HyperframeWriter(path, window=10, lateness=0)
    writer.add_stream("a")
    for n in range(windows):
        writer.append("a", n * 20, b"%d" % n)
    writer.write_closed()
    writer.detach()
    return writer.part.tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_unfinished_recording_is_never_taken_for_an_import(tmp_path):
    source, out = write_log(tmp_path / "log.mcap"), tmp_path / "drive.hfr"
    leave_a_recording(out)
    before = contents(tmp_path)
    for _ in range(2):
        with pytest.raises(UsageError, match="is an unfinished recording, not an import"):
            import_source(McapSource(source), out, resume=True)
        assert contents(tmp_path) == before
        if "drive.hfr.resume" not in before:
            leave_a_recording(tmp_path / "big.hfr", 500).rename(tmp_path / "drive.hfr.resume")
            before = contents(tmp_path)


@pytest.mark.parametrize(("data", "refusal"), [(b"my own notes", "no unfinished import"), (None, "not from 'other'")])
def test_what_another_import_or_program_left_stays(tmp_path, data, refusal):
    source, out = write_log(tmp_path / "log.mcap"), tmp_path / "drive.hfr"
    if data is None:
        interrupt(source, out, 200)
    else:
        Path(f"{out}.tmp").write_bytes(data)
    before = contents(tmp_path)
    with pytest.raises(UsageError, match=refusal):
        import_source(McapSource(source), out, resume=True, kind="other")
    assert contents(tmp_path) == before


def test_a_file_that_is_damaged_at_its_start_is_kept(tmp_path):
    source, out = write_log(tmp_path / "log.mcap"), tmp_path / "drive.hfr"
    interrupt(source, out, 200)
    data = bytearray(Path(f"{out}.tmp").read_bytes())
    data[512:600] = bytes(88)
    Path(f"{out}.tmp").write_bytes(data)
    before = contents(tmp_path)
    with pytest.raises(UsageError, match=r"damaged where it would say what it is; recover it \(trainload recover"):
        import_source(McapSource(source), out, resume=True)
    assert contents(tmp_path) == before


def test_of_two_leftovers_the_larger_counts_if_both_are_of_one_import(tmp_path):
    source, out = write_log(tmp_path / "log.mcap"), tmp_path / "drive.hfr"
    interrupt(source, out, 300)
    Path(f"{out}.tmp").rename(f"{out}.resume")
    interrupt(source, tmp_path / "other.hfr", 150)
    (tmp_path / "other.hfr.tmp").rename(f"{out}.tmp")
    import_source(McapSource(source), out, codec="zstd", resume=True)
    import_source(McapSource(source), tmp_path / "whole.hfr", codec="zstd")
    assert_same_layout(out, tmp_path / "whole.hfr")
    out.unlink()
    interrupt(source, out, 300)
    Path(f"{out}.tmp").rename(f"{out}.resume")
    interrupt(write_log(tmp_path / "log2.mcap", topics=("/x",)), out, 150)
    before = contents(tmp_path)
    with pytest.raises(UsageError, match="two unfinished imports that differ"):
        import_source(McapSource(source), out, resume=True)
    assert contents(tmp_path) == before


def test_an_import_that_still_runs_is_not_resumed(tmp_path):
    source, out = write_log(tmp_path / "log.mcap"), tmp_path / "drive.hfr"
    refused: list[dict[str, Any]] = []
    asked: tuple[dict[str, Any], ...] = ({"resume": True}, {"overwrite": True})

    def second(done: int, total: int) -> None:
        for options in asked:
            if not out.exists():
                with pytest.raises(UsageError, match="another process is writing this file"):
                    import_source(McapSource(source), out, **options)
                refused.append(options)

    import_source(McapSource(source), out, progress=second)
    assert len(refused) >= 2 and tl.verify(out).good


def test_an_import_never_replaces_what_it_reads(tmp_path):
    source = write_log(tmp_path / "log.mcap")
    with pytest.raises(UsageError, match="it is an input"):
        import_source(McapSource(source), source, overwrite=True, inputs=[source])
