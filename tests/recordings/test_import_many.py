"""A pattern imports every log it finds, alone or on Ray, as each is imported alone; one that fails stops no other."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import trainload as tl
from trainload.cli.app import app
from trainload.errors import UsageError

mcap_writer = pytest.importorskip("mcap.writer")
MS = 1_000_000


def write_log(path: Path, count: int = 50) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        writer = mcap_writer.Writer(file, chunk_size=10_000)
        writer.start()
        channel = writer.register_channel("/a", "raw", 0)
        for k in range(count):
            writer.add_message(channel, (1000 + 10 * k) * MS, bytes([k % 256]) * 100, k, k)
        writer.finish()
    return path


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for n, name in enumerate(("monday/run.mcap", "tuesday/run.mcap", "tuesday/more.mcap")):
        write_log(tmp_path / "logs" / name, 40 + n)
    return tmp_path / "logs"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def content(path: Path) -> list[tuple[int, bytes]]:
    with tl.open_recording(path) as recording:
        return [(frame.timestamp_ns, bytes(frame.data)) for frame in recording.read_range("a", 0, 1 << 62)]


@pytest.mark.parametrize("on", [None, "ray"])
def test_each_log_becomes_the_recording_that_it_becomes_alone(logs: Path, tmp_path: Path, on, monkeypatch) -> None:
    if on:
        pytest.importorskip("ray", reason="Ray is not installed: pip install 'trainload[ray]'")
    monkeypatch.chdir(tmp_path)
    seen: list[tuple[int, int]] = []
    found = tl.import_recordings(
        "logs/*/*.mcap", "out", format="mcap", on=on, progress=lambda done, total: seen.append((done, total))
    )
    assert found.good and found.kept == () and set(found.reports) == {str(path) for path in Path("logs").glob("*/*")}
    assert sorted(files(tmp_path / "out")) == ["monday/run.hfr", "tuesday/more.hfr", "tuesday/run.hfr"]
    for source in logs.glob("*/*"):
        alone = tmp_path / "alone.hfr"
        tl.import_recording(source, alone, format="mcap", overwrite=True)
        name = source.relative_to(logs).with_suffix(".hfr")
        assert content(tmp_path / "out" / name) == content(alone)
    size = sum(path.stat().st_size for path in logs.glob("*/*"))
    assert seen[-1] == (size, size) and seen == sorted(seen)


def test_a_log_that_cannot_be_read_is_named_and_the_others_are_imported(logs: Path, tmp_path: Path) -> None:
    (logs / "monday" / "bad.mcap").write_bytes(b"no log at all")
    found = tl.import_recordings(logs / "*" / "*.mcap", tmp_path / "out", format="mcap")
    assert not found.good and list(found.failures) == [str(logs / "monday" / "bad.mcap")]
    assert len(found.reports) == 3 and not (tmp_path / "out" / "monday" / "bad.hfr").exists()


def test_resume_keeps_the_recordings_that_are_there(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    tl.import_recordings(logs / "monday" / "*.mcap", out / "monday", format="mcap")
    before = files(out)
    with pytest.raises(UsageError, match="the file exists"):
        tl.import_recordings(logs / "*" / "*.mcap", out, format="mcap")
    found = tl.import_recordings(logs / "*" / "*.mcap", out, format="mcap", resume=True)
    assert found.kept == (str(logs / "monday" / "run.mcap"),) and len(found.reports) == 2
    assert files(out)["monday/run.hfr"] == before["monday/run.hfr"]


def test_what_cannot_be_is_said_before_the_first_log(logs: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the pattern finds nothing"):
        tl.import_recordings(logs / "*.mcap", tmp_path / "out", format="mcap")
    with pytest.raises(UsageError, match="a format is one of"):
        tl.import_recordings(logs / "*" / "*.mcap", tmp_path / "out", format="mp3")
    with pytest.raises(UsageError, match="not on 'slurm'"):
        tl.import_recordings(logs / "*" / "*.mcap", tmp_path / "out", format="mcap", on="slurm")  # type: ignore[arg-type]
    write_log(logs / "monday" / "run.log")
    with pytest.raises(UsageError, match="would both be"):
        tl.import_recordings(logs / "monday" / "*", tmp_path / "out", format="mcap")
    assert not (tmp_path / "out").exists()


def test_the_command_imports_a_pattern(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import trainload.cli.import_  # noqa: F401 - registers the verb

    (logs / "monday" / "bad.mcap").write_bytes(b"no log at all")
    words = ["import", "mcap", str(logs / "*" / "*.mcap"), str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["trainload", *words])
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1 and done.stdout.count(" frames of ") == 3 and "bad.mcap: not imported: " in done.stdout
    done = CliRunner().invoke(app, [*words, "--resume", "--json"])
    facts = json.loads(done.stdout)
    assert len(facts["kept"]) == 3 and len(facts["failures"]) == 1 and not facts["imported"]
    with pytest.raises(UsageError, match="one log is one task"):
        CliRunner().invoke(
            app,
            ["import", "mcap", str(logs / "monday" / "run.mcap"), str(tmp_path / "x.hfr"), "--on", "ray"],
            catch_exceptions=False,
        )
