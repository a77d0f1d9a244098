"""The bytes of a pack depend on its source and switches alone: not on jobs, not on kills, not on failing disks."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import trainload as tl
from child_processes import running
from picture_folders import encoded
from trainload.images.format import dts
from trainload.images.packing import block_cutting
from trainload.images.packing.levels import LevelOptions
from trainload.images.packing.progress import PackProgress
from trainload.images.packing.sources import open_source
from trainload.images.packing.workers import Workers

# Blocks of 1 MB, so that a small set has many.
SMALL_BLOCKS = """
import sys
from trainload.images.format import dts
from trainload.images.packing import block_cutting
dts.BLOCK_SIZE, block_cutting.MAX_BLOCK_HEADER_SIZE = 1 << 20, 1 << 16
from trainload.images.packing.images import pack_images
pack_images(sys.argv[1], sys.argv[2], level=int(sys.argv[3]), jobs=int(sys.argv[4]), resume=True, on_error="skip",
            volumes=int(sys.argv[5]))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """240 noisy pictures of about 45 KB in 4 classes, two of them broken."""
    root = tmp_path_factory.mktemp("source")
    for n in range(240):
        folder = root / f"class{n % 4}"
        folder.mkdir(exist_ok=True)
        noise = np.random.default_rng(n).integers(0, 256, (150 + n % 40, 220, 3), np.uint8)
        data = encoded(Image.fromarray(noise), quality=85)
        (folder / f"{n:03d}.jpeg").write_bytes(data[:1000] if n in (17, 88) else data)
    return root


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dts, "BLOCK_SIZE", 1 << 20)
    monkeypatch.setattr(block_cutting, "MAX_BLOCK_HEADER_SIZE", 1 << 16)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("level", [0, 3])
def test_any_number_of_jobs_gives_the_same_bytes(level: int, source: Path, tmp_path: Path, small_blocks: None) -> None:
    made = []
    for jobs in (1, 3):
        out = tmp_path / str(jobs) / "set.dts"
        tl.pack_images(source, out, level=level, jobs=jobs, on_error="skip")
        made.append(out.read_bytes())
    assert made[0] == made[1]
    assert len(made[0]) > dts.IMAGE_HEADER_BYTES + 3 * (1 << 20)


@pytest.mark.slow
@pytest.mark.parametrize(("level", "volumes"), [(0, 1), (3, 1), (3, 3)])
def test_a_pack_that_is_killed_at_any_moment_goes_on_to_the_same_bytes(
    level: int, volumes: int, source: Path, tmp_path: Path
) -> None:
    arguments = [SMALL_BLOCKS, str(source)]
    switches = [str(level), "2", str(volumes)]
    python = [sys.executable, "-c", *arguments]
    subprocess.run([*python, str(tmp_path / "whole" / "set.dts"), *switches], check=True)
    expected = files_of(tmp_path / "whole")
    out = tmp_path / "killed" / "set.dts"
    journal = Path(f"{out}.journal")
    chance = random.Random(level + volumes)
    for lines in (1, 3):
        with running(*arguments, out, *switches) as process:
            while process.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") > lines):
                time.sleep(0.002)
            time.sleep(chance.random() * 0.02)
        if not journal.exists():
            break
        assert not out.exists()
    subprocess.run([*python, str(out), *switches], check=True)
    found = files_of(tmp_path / "killed")
    assert set(found) == set(expected)
    assert all(found[name] == expected[name] for name in expected if name.endswith(".dts"))


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 3])
def test_ctrl_c_ends_a_parallel_pack_at_once_wherever_it_is(level: int, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "set.dts"
    arguments = [SMALL_BLOCKS, source, out, level, 2, 1]
    subprocess.run([sys.executable, "-c", *map(str, arguments)], check=True)
    expected = out.read_bytes()
    clear(tmp_path)
    chance = random.Random(level)
    for _ in range(4):
        with running(*arguments, stderr=subprocess.PIPE) as process:
            while process.poll() is None and not Path(f"{out}.tmp").exists():
                time.sleep(0.002)
            time.sleep(chance.random() * 0.2)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=10)
        assert not out.exists() or out.read_bytes() == expected  # it may come after the rename
        clear(tmp_path)


def clear(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def test_a_killed_packer_leaves_no_process_behind(source: Path, tmp_path: Path) -> None:
    code = f"import time\nfrom trainload.images.packing.workers import Workers\n{HOLD_WORKERS}"
    with running(code, source, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
    deadline = time.monotonic() + 10
    while any(map(_runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(pids) == 2 and not any(map(_runs, pids))


HOLD_WORKERS = """
import sys
from trainload.images.packing.levels import LevelOptions
from trainload.images.packing.sources import open_source
table = open_source(sys.argv[1])[""]
workers = Workers(table.files, LevelOptions(3, 1 << 24), 2)
results = workers.packed(table.locator(n) for n in range(len(table)))
next(results)
print(*workers.pids, flush=True)
time.sleep(60)
"""


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_worker_that_dies_ends_the_pack_with_an_error(source: Path) -> None:
    table = open_source(source)[""]
    with Workers(table.files, LevelOptions(3, 1 << 24), 2) as workers:
        results = workers.packed(table.locator(n) for n in range(len(table)))
        next(results)
        os.kill(workers.pids[0], signal.SIGKILL)
        with pytest.raises(ChildProcessError, match="ended by itself"):
            list(results)


def fail_after(calls: int, real: Callable[..., int], code: int) -> Callable[..., int]:
    def call(*arguments: object) -> int:
        nonlocal calls
        calls -= 1
        if calls < 0:
            raise OSError(code, os.strerror(code))
        return real(*arguments)

    return call


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize(
    ("function", "calls", "code"),
    [
        ("pwrite", 0, errno.ENOSPC),
        ("pwrite", 3, errno.ENOSPC),
        ("pwrite", 7, errno.EIO),
        ("fsync", 0, errno.EIO),
        ("fsync", 1, errno.EIO),
        ("ftruncate", 0, errno.ENOSPC),
        ("ftruncate", 1, errno.EIO),
    ],
)
def test_a_failing_disk_leaves_the_old_file_and_resume_makes_the_new_one(
    level: int,
    function: str,
    calls: int,
    code: int,
    source: Path,
    tmp_path: Path,
    small_blocks: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tl.pack_images(source, tmp_path / "whole.dts", level=level, jobs=1, on_error="skip")
    out = tmp_path / "set.dts"
    out.write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail_after(calls, getattr(os, function), code))
        with pytest.raises(OSError, match=os.strerror(code)):
            tl.pack_images(source, out, level=level, jobs=1, on_error="skip", overwrite=True)
    assert out.read_bytes() == b"old"
    tl.pack_images(source, out, level=level, jobs=1, on_error="skip", resume=True, overwrite=True)
    assert out.read_bytes() == (tmp_path / "whole.dts").read_bytes()
    assert {path.name for path in tmp_path.glob("set.dts*")} == {"set.dts", "set.dts.report.json"}


def test_a_file_size_limit_of_the_system_leaves_no_file_under_the_final_name(source: Path, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (19 << 20, 19 << 20))

    command = [sys.executable, "-c", SMALL_BLOCKS, str(source), str(tmp_path / "set.dts"), "0", "2", "1"]
    done = subprocess.run(command, check=False, preexec_fn=limit, capture_output=True, text=True)
    assert done.returncode != 0 and "File too large" in done.stderr
    assert not (tmp_path / "set.dts").exists()
    subprocess.run(command, check=True)
    assert (tmp_path / "set.dts").exists()


def test_a_block_that_was_damaged_since_is_made_again(source: Path, tmp_path: Path, small_blocks: None) -> None:
    tl.pack_images(source, tmp_path / "whole.dts", level=0, jobs=1, on_error="skip")
    out = tmp_path / "set.dts"
    interrupt_at(3, source, out)
    with open(f"{out}.tmp", "r+b") as file:
        file.seek((16 << 20) + (1 << 20) + 9000)
        file.write(b"damage")
    tl.pack_images(source, out, level=0, jobs=1, on_error="skip", resume=True)
    assert out.read_bytes() == (tmp_path / "whole.dts").read_bytes()


def test_a_journal_that_was_cut_in_a_line_counts_up_to_that_line(
    source: Path, tmp_path: Path, small_blocks: None
) -> None:
    tl.pack_images(source, tmp_path / "whole.dts", level=3, jobs=1, on_error="skip")
    out = tmp_path / "set.dts"
    interrupt_at(1, source, out, level=3)
    journal = Path(f"{out}.journal")
    journal.write_bytes(journal.read_bytes()[:-30])
    tl.pack_images(source, out, level=3, jobs=1, on_error="skip", resume=True)
    assert out.read_bytes() == (tmp_path / "whole.dts").read_bytes()


def test_a_journal_of_another_pack_is_refused(source: Path, tmp_path: Path, small_blocks: None) -> None:
    out = tmp_path / "set.dts"
    interrupt_at(2, source, out)
    with pytest.raises(tl.UsageError, match="differs in level"):
        tl.pack_images(source, out, level=2, jobs=1, resume=True)
    tl.pack_images(source, out, level=2, jobs=1, on_error="skip")
    assert out.exists()


def test_a_kill_between_the_renames_of_volumes_is_no_loss(
    source: Path, tmp_path: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tl.pack_images(source, tmp_path / "whole" / "set.dts", level=0, volumes=3, jobs=1, on_error="skip")
    out = tmp_path / "cut" / "set.dts"
    real = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if path.name == "set-1-of-3.dts.tmp":
            raise KeyboardInterrupt
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            tl.pack_images(source, out, level=0, volumes=3, jobs=1, on_error="skip")
    assert (out.parent / "set-0-of-3.dts").exists() and not (out.parent / "set-1-of-3.dts").exists()
    tl.pack_images(source, out, level=0, volumes=3, jobs=1, on_error="skip", resume=True)
    whole, cut = files_of(tmp_path / "whole"), files_of(out.parent)
    assert set(whole) == set(cut) and all(whole[name] == cut[name] for name in whole if name.endswith(".dts"))


def interrupt_at(block: int, source: Path, out: Path, level: int = 0) -> None:
    """Pack until that many blocks are in the journal."""

    def stop(progress: PackProgress) -> None:
        if Path(f"{out}.journal").read_bytes().count(b"\n") > block:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainload.images.packing.progress.PROGRESS_PICTURES", 1)
        tl.pack_images(source, out, level=level, jobs=1, on_error="skip", progress=stop)
