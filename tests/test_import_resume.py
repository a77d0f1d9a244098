"""An interrupted import goes on where it stopped and ends as if nothing had happened."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from trainload.aligning.recording import RecordingTimes
from trainload.errors import UsageError
from trainload.importers.columns import Column, ColumnSource
from trainload.importers.mcap import McapSource
from trainload.importers.resume import FrameSet
from trainload.importers.run import import_recording
from trainload.importers.source import SourceFrame, SourceStream

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
        import_recording(log, out, codec="zstd", resume=resume)
    assert not out.exists()
    assert Path(f"{out}.tmp").exists()


def frames_of(path: Path) -> dict[str, list[tuple]]:
    with tl.open(path) as drive:
        return {
            name: sorted(
                (frame.stream_index, frame.timestamp_ns, bytes(frame.data))
                for frame in drive.iter_range(name, 0, 1 << 62)
            )
            for name in drive.streams
        }


def test_a_resumed_import_equals_one_that_was_not_interrupted(tmp_path):
    source = write_log(tmp_path / "log.mcap")
    import_recording(McapSource(source), tmp_path / "whole.hfr", codec="zstd")
    out = tmp_path / "drive.hfr"
    interrupt(source, out, 150)
    interrupt(source, out, 300, resume=True)
    report = import_recording(McapSource(source), out, codec="zstd", resume=True)
    assert frames_of(out) == frames_of(tmp_path / "whole.hfr")
    assert report.window.reason == "window of the import that was interrupted"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drive.hfr", "log.mcap", "whole.hfr"]


def test_windows_that_were_committed_are_not_imported_again(tmp_path, monkeypatch):
    source, out = write_log(tmp_path / "log.mcap"), tmp_path / "drive.hfr"
    interrupt(source, out, 300)
    from trainload.recording.writer import HyperframeWriter

    appended = []
    real = HyperframeWriter.append
    monkeypatch.setattr(HyperframeWriter, "append", lambda *a, **k: (appended.append(a[2]), real(*a, **k))[1])
    import_recording(McapSource(source), out, resume=True)
    assert 100 < len(appended) < 200


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
        import_recording(columns(700), out)
    import_recording(columns(0), out, resume=True)
    import_recording(columns(0), tmp_path / "whole.hfr")
    assert frames_of(out) == frames_of(tmp_path / "whole.hfr")
    with tl.open(out) as drive:
        assert RecordingTimes(drive).values("imu").tolist() == list(range(1000))


def test_a_killed_import_is_resumed(tmp_path):
    source, out = write_log(tmp_path / "log.mcap", count=6000), tmp_path / "drive.hfr"
    script = (
        "import sys, time\nfrom trainload.importers.mcap import McapSource\n"
        "from trainload.importers.run import import_recording\n"
        "import_recording(McapSource(sys.argv[1]), sys.argv[2], progress=lambda *_: time.sleep(0.05))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script, str(source), str(out)])
    tmp = Path(f"{out}.tmp")
    deadline = time.monotonic() + 30
    while not (tmp.exists() and tmp.stat().st_size > 100_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    import_recording(McapSource(source), out, resume=True)
    import_recording(McapSource(source), tmp_path / "whole.hfr")
    assert frames_of(out) == frames_of(tmp_path / "whole.hfr")


def test_another_source_is_refused(tmp_path):
    out = tmp_path / "drive.hfr"
    interrupt(write_log(tmp_path / "log.mcap"), out, 200)
    other = write_log(tmp_path / "other.mcap", topics=("/x", "/y"))
    with pytest.raises(UsageError, match="another source"):
        import_recording(McapSource(other), out, resume=True)


def test_resuming_what_was_never_begun_is_an_import(tmp_path):
    report = import_recording(McapSource(write_log(tmp_path / "log.mcap")), tmp_path / "drive.hfr", resume=True)
    assert report.summary.frames > 400


def test_a_frame_set_holds_numbers_in_any_order():
    numbers = FrameSet()
    for number in (2, 0, 5, 1):
        numbers.add(number)
    assert [number in numbers for number in range(7)] == [True, True, True, False, False, True, False]
    assert numbers.below == 3
