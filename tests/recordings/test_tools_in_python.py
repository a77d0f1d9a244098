"""What the command line can do with a recording, Python can: with the same results, and told how far it is."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trainload as tl
from drive_data import Written, write_drive
from trainload.cli.app import main
from trainload.formats.progress import Progress
from trainload.recordings.checking.hyperframe import verify_hyperframe

Work = Callable[[Path, Path, Progress], object]


def on_recording(tool: Callable[..., object]) -> Work:
    def work(source: Path, out: Path, progress: Progress) -> object:
        with tl.open_recording(source) as recording:
            return tool(recording, out, progress=progress)

    return work


WORK: dict[str, Work] = {
    "recover": lambda source, out, progress: tl.recover(source, out, progress=progress),
    "slice": on_recording(tl.slice_recording),
    "merge": on_recording(lambda recording, out, progress: tl.merge_recordings([recording], out, progress=progress)),
    "extract": on_recording(tl.extract_frames),
    "export": on_recording(tl.export_mcap),
    "verify": lambda source, _, progress: verify_hyperframe(source, progress=progress),
    "import": lambda source, out, progress: tl.import_recording(
        source.with_suffix(".mcap"), out, format="mcap", progress=progress
    ),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Written:
    written = write_drive(tmp_path_factory.mktemp("good") / "good.hfr")
    with tl.open_recording(written.path) as recording:
        tl.export_mcap(recording, written.path.with_suffix(".mcap"))
    return written


@pytest.mark.parametrize("name", WORK)
def test_progress_goes_up_to_all_that_there_is(good: Written, tmp_path: Path, name: str) -> None:
    told: list[tuple[int, int]] = []
    WORK[name](good.path, tmp_path / "out", lambda done, total: told.append((done, total)))
    done = [each for each, _ in told]
    assert done == sorted(done) and all(0 <= each <= total for each, total in told)
    assert told[-1][0] == told[-1][1] > 0


@pytest.mark.parametrize("name", WORK)
def test_an_exception_of_progress_ends_the_work_and_leaves_no_file_under_the_name(
    good: Written, tmp_path: Path, name: str
) -> None:
    def stop(*_: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        WORK[name](good.path, tmp_path / "out", stop)
    assert not (tmp_path / "out").exists()


def test_an_import_from_python_is_the_import_of_the_command(
    good: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = good.path.with_suffix(".mcap")
    options: dict[str, Any] = {"window": "50ms", "codec": "zstd", "times": "log"}
    report = tl.import_recording(log, tmp_path / "a.hfr", format="mcap", clocks={"imu": "host"}, **options)
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    monkeypatch.setattr(
        sys, "argv", ["trainload", "import", "mcap", str(log), str(tmp_path / "b.hfr"), "--clock", "imu=host", *words]
    )
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--json"])
    with pytest.raises(SystemExit):
        main()
    told = json.loads(capsys.readouterr().out)
    assert {**told, "path": ""} == {**report.facts(), "path": ""} and report.summary.frames > 0
    with tl.open_recording(tmp_path / "a.hfr") as ours, tl.open_recording(tmp_path / "b.hfr") as theirs:
        assert ours.streams == theirs.streams and ours.meta == theirs.meta
        for one, other in zip(ours.frames(), theirs.frames(), strict=True):
            assert (one.stream, one.timestamp_ns, one.flags, bytes(one.data)) == (
                other.stream,
                other.timestamp_ns,
                other.flags,
                bytes(other.data),
            )


def test_an_import_of_what_is_no_format_or_takes_no_such_option_is_refused(good: Written, tmp_path: Path) -> None:
    log = good.path.with_suffix(".mcap")
    with pytest.raises(tl.UsageError, match="a format is one of mcap, "):
        tl.import_recording(log, tmp_path / "a.hfr", format="map")
    with pytest.raises(tl.UsageError, match="mcap takes no option unit"):
        tl.import_recording(log, tmp_path / "a.hfr", format="mcap", unit="ms")
    with pytest.raises(tl.UsageError, match="kitti takes no option stamped_by"):
        tl.import_recording(tmp_path, tmp_path / "a.hfr", format="kitti", stamped_by="host")
