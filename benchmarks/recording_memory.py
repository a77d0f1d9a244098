"""How memory grows with a recording: write, record, import, recover, slice and export of tiny frames, at two lengths.

usage: python benchmarks/recording_memory.py [--frames 500000 2000000] [--folder DIR]

Five streams of 1 kHz, 16 bytes a frame, nothing synced. Every step runs in a process of its own. Prints JSON: for each
step the peak resident MB and processor microseconds per frame at both lengths, and bytes per frame between them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from machine import machine
from trainload.recordings.exporters.mcap import export_mcap
from trainload.recordings.exporters.slice import slice_recording
from trainload.recordings.importers.import_source import import_source
from trainload.recordings.importers.source import Channel, Damage, SourceFrame, SourceStream, Span
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.recovering.recover import recover
from trainload.recordings.writing.recorder import Recorder
from trainload.recordings.writing.writer import HyperframeWriter
from trainload.storage.atomic import AtomicFile

START_NS, STEP_NS, STREAMS = 10**18, 200_000, 5
DATA = bytes(16)


class _Unsynced(AtomicFile):
    def sync(self) -> None:
        return


def _unsynced(path: Path) -> AtomicFile:
    return _Unsynced(path, keep=True)


class _Log:
    """A log of that many frames that costs nothing to read."""

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self.damage, self.channels, self.notes = Damage(), list[Channel](), list[str]()
        self.meta: dict[str, Any] = {}

    def survey(self) -> dict[str, Span]:
        return {}

    def progress(self) -> tuple[int, int]:
        return 0, self._frames

    def items(self) -> Iterator[SourceStream | SourceFrame]:
        for stream in range(STREAMS):
            yield SourceStream(str(stream))
        for n in range(self._frames):
            yield SourceFrame(str(n % STREAMS), START_NS + n * STEP_NS, DATA, START_NS + n * STEP_NS + 1)


def write(folder: Path, frames: int) -> None:
    with HyperframeWriter(folder / "written.hfr", overwrite=True, open_file=_unsynced) as writer:
        for stream in range(STREAMS):
            writer.add_stream(str(stream))
        for n in range(frames):
            writer.append(n % STREAMS, START_NS + n * STEP_NS, DATA, receive_ns=START_NS + n * STEP_NS + 1)


def record(folder: Path, frames: int) -> None:
    with Recorder(folder / "recorded.hfr", queue_bytes=8 << 20, overwrite=True, open_file=_unsynced) as recorder:
        for stream in range(STREAMS):
            recorder.add_stream(str(stream))
        for n in range(frames):
            recorder.write(n % STREAMS, START_NS + n * STEP_NS, DATA)


STEPS: dict[str, Callable[[Path, int], Any]] = {
    "write": write,
    "record": record,
    "import": lambda folder, n: import_source(_Log(n), folder / "imported.hfr", overwrite=True),
    "recover": lambda folder, _: recover(folder / "written.hfr", folder / "recovered.hfr", overwrite=True),
    "slice": lambda folder, _: slice_recording(
        HyperframeReader(folder / "written.hfr"), folder / "cut.hfr", overwrite=True
    ),
    "export mcap": lambda folder, _: export_mcap(
        HyperframeReader(folder / "written.hfr"), folder / "a.mcap", overwrite=True
    ),
}


def measure(step: str, folder: Path, frames: int) -> tuple[float, float]:
    """Peak MB and processor microseconds per frame of one step in a new process."""
    command = [sys.executable, __file__, "--folder", str(folder), "--frames", str(frames), "--step", step]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return told["peak_kib"] * 1024 / 1e6, told["cpu_s"] / frames * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, nargs="+", default=[500_000, 2_000_000])
    parser.add_argument("--folder", type=Path, default=None, help="where the files go; a temporary folder by default")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        begin = time.process_time()
        STEPS[options.step](options.folder, options.frames[0])
        status = Path("/proc/self/status").read_text()
        peak_kib = int(status.split("VmHWM:")[1].split()[0])
        print(json.dumps({"peak_kib": peak_kib, "cpu_s": time.process_time() - begin}))
        return
    lengths, rows = options.frames, []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        found = {frames: {step: measure(step, Path(folder), frames) for step in STEPS} for frames in lengths}
    for step in STEPS:
        peaks, cpu = zip(*(found[frames][step] for frames in lengths))
        slope = (peaks[-1] - peaks[0]) * 1e6 / (lengths[-1] - lengths[0])
        rows.append(
            {
                "step": step,
                "peak_mb": [round(peak) for peak in peaks],
                "bytes_per_frame": round(slope, 1),
                "cpu_us_per_frame": [round(one, 2) for one in cpu],
            }
        )
    print(json.dumps({**machine(), "frames": lengths, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
