"""A set packed by Ray is the set that one machine packs; a worker that is killed costs its volume's task alone."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import trainload as tl
from child_processes import running
from picture_folders import class_folders, encoded
from trainload.cli.app import app
from trainload.cluster.ray_tasks import cluster, run_tasks

pytestmark = pytest.mark.slow  # a server, or Ray


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """One Ray for all of these, bound to the loopback."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'trainload[ray]'")
    with cluster(None):
        yield


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.dts"))}


def test_without_ray_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(tl.UsageError, match=r"pip install 'trainload\[ray\]'"):
        tl.pack_images(class_folders(tmp_path / "src"), tmp_path / "set.dts", on="ray")
    with pytest.raises(tl.UsageError, match="on this machine, or on='ray'"):
        tl.pack_images(tmp_path / "src", tmp_path / "set.dts", ray_address="auto")
    assert not list(tmp_path.glob("set*"))


@pytest.mark.parametrize("volumes", [1, 3])
def test_tasks_pack_the_bytes_of_one_machine(
    session: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, volumes: int
) -> None:
    source = class_folders(tmp_path / "src", each=20)
    monkeypatch.chdir(tmp_path)  # workers work elsewhere
    seen: list[tuple[int, int]] = []
    tl.pack_images(source, "whole/set.dts", level=3, volumes=volumes, jobs=1)
    summary = tl.pack_images(
        "src",
        "ray/set.dts",
        level=3,
        volumes=volumes,
        on="ray",
        progress=lambda now: seen.append((now.done, now.total)),
    )
    assert digests(Path("ray")) == digests(Path("whole")) and len(digests(Path("ray"))) == volumes
    assert seen[-1] == (60, 60) and summary.pictures == 60
    assert {path.name for path in Path("ray").iterdir()} == {*digests(Path("ray")), "set.dts.report.json"}


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 pictures that take a while."""
    source = tmp_path_factory.mktemp("noise")
    for n in range(60):
        pixels = np.random.default_rng(n).integers(0, 256, (400, 500, 3), np.uint8)
        folder = source / f"class{n % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{n}.jpeg").write_bytes(encoded(Image.fromarray(pixels), quality=90))
    return source


def test_a_task_whose_process_is_killed_is_run_again(session: None, noise: Path, tmp_path: Path) -> None:
    tl.pack_images(noise, tmp_path / "whole" / "set.dts", level=3, volumes=3, jobs=1)
    killed: set[int] = set()
    ended = threading.Event()

    def kill() -> None:
        while len(killed) < 2 and not ended.wait(0.01):
            for pid in tasks_of("pack_volume_task") - killed:
                time.sleep(0.05)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        tl.pack_images(noise, tmp_path / "ray" / "set.dts", level=3, volumes=3, on="ray")
    finally:
        ended.set()
        killer.join()
    assert killed and digests(tmp_path / "ray") == digests(tmp_path / "whole")


DRIVER = """
import sys
import trainload as tl
tl.pack_images(sys.argv[1], sys.argv[2], level=3, volumes=5, on="ray", resume=len(sys.argv) > 3)
"""


@pytest.mark.slow
def test_a_coordinator_that_is_killed_between_volumes_goes_on_with_resume(noise: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'trainload[ray]'")
    tl.pack_images(noise, tmp_path / "whole" / "set.dts", level=3, volumes=5, jobs=1)
    out = tmp_path / "ray" / "set.dts"
    with running(DRIVER, noise, out) as process:
        while process.poll() is None and not list(out.parent.glob("*.result")):
            time.sleep(0.01)
        assert process.poll() is None
    kept = {path.name: path.stat().st_mtime_ns for path in out.parent.glob("*.result")}
    assert kept and not digests(out.parent)
    with running(DRIVER, noise, out, "resume") as process:
        assert process.wait() == 0
    assert digests(out.parent) == digests(tmp_path / "whole")
    assert {path.name for path in out.parent.iterdir()} == {*digests(tmp_path / "whole"), "set.dts.report.json"}


def tasks_of(function: str) -> set[int]:
    """The processes that run a task of that function."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes().startswith(f"ray::{function}".encode()):
                found.add(int(path.parent.name))
    return found


def test_what_a_task_raises_is_raised_here(session: None, tmp_path: Path) -> None:
    source = class_folders(tmp_path / "src")
    (source / "class1" / "bad.jpeg").write_bytes(b"\xff\xd8\xff nothing")
    out = tmp_path / "set.dts"
    with pytest.raises(tl.SampleError, match=r"class1/bad\.jpeg"):
        tl.pack_images(source, out, level=0, volumes=2, on="ray")
    tl.pack_images(source, out, level=0, volumes=2, on="ray", resume=True, on_error="skip")
    assert len(digests(tmp_path)) == 2 and not list(tmp_path.glob("*.journal"))


def test_the_command_packs_on_ray(session: None, tmp_path: Path) -> None:
    import trainload.cli.pack_steps  # noqa: F401 - registers the verbs

    source = class_folders(tmp_path / "src")
    command = ["pack", "images", str(source), str(tmp_path / "set.dts"), "--volumes", "2", "--on", "ray", "--json"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert json.loads(done.stdout)["sets"][0]["pictures"] == 12 and len(digests(tmp_path)) == 2


def test_more_tasks_than_places_are_all_run_once(session: None) -> None:
    results: dict[int, int] = {}
    run_tasks(lambda shared, n: shared + n * n, 100, [(n,) for n in range(40)], address=None, done=results.__setitem__)
    assert results == {n: 100 + n * n for n in range(40)}


def test_a_local_ray_listens_on_the_loopback_only(session: None) -> None:
    listening = {line.split()[1] for path in ("tcp", "tcp6") for line in listeners(Path("/proc/net") / path)}
    assert listening and listening <= LOOPBACKS


LOOPBACKS = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def listeners(path: Path) -> list[str]:
    """`PID ADDRESS` of the sockets of Ray's processes that wait for connections."""
    owners = {}
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            command = (link.parents[1] / "cmdline").read_bytes()
            if b"ray" in command and (target := str(link.readlink())).startswith("socket:["):
                owners[target[8:-1]] = link.parents[1].name
    lines = []
    for row in path.read_text().splitlines()[1:] if path.exists() else []:
        fields = row.split()
        if fields[3] == "0A" and fields[9] in owners:
            raw = bytes.fromhex(fields[1].partition(":")[0])
            words = b"".join(raw[n : n + 4][::-1] for n in range(0, len(raw), 4))
            family = socket.AF_INET if len(words) == 4 else socket.AF_INET6
            lines.append(f"{owners[fields[9]]} {socket.inet_ntop(family, words)}")
    return lines
