"""A set packed volume by volume, anywhere, is the set that one machine packs: to the byte, whatever is killed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import trainload as tl
from child_processes import running
from picture_folders import encoded
from trainload.cli.app import app
from trainload.images.format import dts
from trainload.images.packing import block_cutting, plan_file, progress
from trainload.images.packing.finish import finish, kept_results
from trainload.images.packing.images import image_sets
from trainload.images.packing.plan import PackPlan, Versions, make_plan, make_plan_and_window
from trainload.images.packing.plan_file import plan_from_bytes, plan_to_bytes, read_plan, write_plan
from trainload.images.packing.volume_packer import pack_volume
from trainload.images.packing.volume_result import VolumeResult
from trainload.storage.volume_sink import LocalVolumes

BLOCK, HEADER = 1 << 19, 1 << 15

# Blocks of 512 KB, so that a small set has many.
STEP = f"""
import sys
from trainload.images.format import dts
from trainload.images.packing import block_cutting
dts.BLOCK_SIZE, block_cutting.MAX_BLOCK_HEADER_SIZE = {BLOCK}, {HEADER}
from trainload.images.packing.finish import finish, kept_results
from trainload.images.packing.plan_file import read_plan
from trainload.images.packing.volume_packer import pack_volume
from trainload.storage.volume_sink import LocalVolumes
plan = read_plan(sys.argv[1])
place = LocalVolumes(sys.argv[2], plan.options.volumes)
if sys.argv[3] == "finish":
    finish(plan, kept_results(plan, place), place)
else:
    pack_volume(plan, int(sys.argv[3]), place)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 noisy pictures in 4 classes: two broken ones, one larger than a small block."""
    root = tmp_path_factory.mktemp("source")
    for n in range(120):
        folder = root / f"class{n % 4}"
        folder.mkdir(exist_ok=True)
        noise = np.random.default_rng(n).integers(0, 256, (150 + n % 40, 220, 3), np.uint8)
        data = encoded(Image.fromarray(noise), quality=85)
        (folder / f"{n:03d}.jpeg").write_bytes(data[:1000] if n in (17, 88) else data)
    noise = np.random.default_rng(1000).integers(0, 256, (500, 500, 3), np.uint8)
    Image.fromarray(noise).save(root / "class1" / "large.png")
    return root


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dts, "BLOCK_SIZE", BLOCK)
    monkeypatch.setattr(block_cutting, "MAX_BLOCK_HEADER_SIZE", HEADER)
    monkeypatch.setattr(plan_file, "MAX_BLOCK_HEADER_SIZE", HEADER)


def plan_of(source: Path, **switches: Any) -> PackPlan:
    [(table, options)] = image_sets(source, "set.dts", on_error="skip", **switches)[0].values()
    return make_plan(table, options)


def digests(folder: Path, pattern: str = "*.dts") -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob(pattern))}


@pytest.mark.parametrize("volumes", [1, 3, 7])
@pytest.mark.parametrize("level", [0, 3])
def test_volumes_packed_alone_in_any_order_make_the_set_of_one_machine(
    source: Path, tmp_path: Path, level: int, volumes: int
) -> None:
    tl.pack_images(source, tmp_path / "whole" / "set.dts", level=level, volumes=volumes, jobs=1, on_error="skip")
    write_plan(plan_of(source, level=level, volumes=volumes), tmp_path / "plan")
    (tmp_path / "steps").mkdir()
    for volume in random.Random(volumes).sample(range(volumes), volumes):
        place = LocalVolumes(tmp_path / "steps" / "set.dts", volumes)
        pack_volume(read_plan(tmp_path / "plan"), volume, place)
    plan = read_plan(tmp_path / "plan")
    finish(plan, kept_results(plan, place), place)
    assert digests(tmp_path / "steps") == digests(tmp_path / "whole") and len(digests(tmp_path / "steps")) == volumes
    whole, steps = (json.loads((tmp_path / name / "set.dts.report.json").read_bytes()) for name in ("whole", "steps"))
    for report in (whole, steps):
        del report["summary"]["paths"], report["summary"]["report_path"]
    assert steps == whole and whole["summary"]["refused"] == 2
    assert not [*(tmp_path / "steps").glob("*.tmp"), *(tmp_path / "steps").glob("*.result")]
    assert {path.name for path in (tmp_path / "steps").iterdir()} == {
        *digests(tmp_path / "whole"),
        "set.dts.report.json",
    }


def test_the_samples_that_a_plan_made_are_of_use_to_volume_0(source: Path, tmp_path: Path) -> None:
    [(table, options)] = image_sets(source, "set.dts", on_error="skip", level=3, volumes=2)[0].values()
    plan, window = make_plan_and_window(table, options)
    assert len(window.pictures) > 20 and plan.digest == plan_of(source, level=3, volumes=2).digest
    results = []
    for name, ready in (("with", window), ("without", None)):
        place = LocalVolumes(tmp_path / name, 2)
        results.append(pack_volume(plan, 0, place, window=ready))
        results.append(pack_volume(plan, 1, place, window=ready))  # of no use to others
    assert results[0].to_bytes(plan) == results[2].to_bytes(plan)
    assert results[1].to_bytes(plan) == results[3].to_bytes(plan)


def test_a_plan_read_again_is_the_plan(source: Path, tmp_path: Path) -> None:
    for level in (0, 2):
        plan = plan_of(source, level=level, volumes=3)
        again = plan_from_bytes(plan_to_bytes(plan))
        assert plan_to_bytes(again) == plan_to_bytes(plan) and again.digest == plan.digest
        assert (again.options, again.oversize, again.refusals) == (plan.options, plan.oversize, plan.refusals)
        assert bool(plan.oversize) == (level == 0)
        assert again.table.left_out.facts() == plan.table.left_out.facts()


def test_other_versions_are_refused(source: Path, tmp_path: Path) -> None:
    plan = plan_of(source, level=3, volumes=1)
    for name in ("trainload", "pillow", "libjpeg"):
        other = replace(plan, versions=replace(plan.versions, **{name: "1.2.3"}))
        with pytest.raises(tl.UsageError, match=r"made with .*1\.2\.3.* and this process has trainload"):
            pack_volume(other, 0, LocalVolumes(tmp_path / "set.dts", 1))
        with pytest.raises(tl.UsageError, match=r"1\.2\.3"):
            finish(other, [], LocalVolumes(tmp_path / "set.dts", 1))
    assert not list(tmp_path.iterdir()) and Versions.here().libjpeg


def test_a_second_attempt_at_a_volume_is_refused_while_the_first_one_runs(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PROGRESS_PICTURES", 8)
    plan = plan_of(source, level=3, volumes=2)
    place = LocalVolumes(tmp_path / "set.dts", 2)
    refused = []

    def second(now: progress.PackProgress) -> None:
        if now.done < now.total:
            with pytest.raises(tl.UsageError, match="another process is writing") as caught:
                pack_volume(plan, 0, place)
            refused.append(caught.value)

    first = pack_volume(plan, 0, place, progress=second)
    assert len(refused) > 3
    seen: list[progress.PackProgress] = []
    assert pack_volume(plan, 0, place, progress=seen.append).to_bytes(plan) == first.to_bytes(plan)
    assert not seen  # nothing is packed again


def test_two_attempts_at_once_where_the_file_system_has_no_locks_give_the_same_bytes(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(fd: int, kind: int) -> None:
        raise OSError(38, os.strerror(38))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    monkeypatch.setattr(progress, "PROGRESS_PICTURES", 20)
    plan = plan_of(source, level=0, volumes=1)
    whole, place = LocalVolumes(tmp_path / "whole.dts", 1), LocalVolumes(tmp_path / "set.dts", 1)
    finish(plan, [pack_volume(plan, 0, whole)], whole)
    inner = []

    def second(now: progress.PackProgress) -> None:
        if now.done < now.total:
            inner.append(pack_volume(plan, 0, place))

    first = pack_volume(plan, 0, place, progress=second)
    assert inner and {each.to_bytes(plan) for each in inner} == {first.to_bytes(plan)}
    finish(plan, [first], place)
    assert (tmp_path / "set.dts").read_bytes() == (tmp_path / "whole.dts").read_bytes()


def test_a_volume_whose_blocks_are_gone_or_damaged_is_packed_again(source: Path, tmp_path: Path) -> None:
    plan = plan_of(source, level=0, volumes=2)
    place = LocalVolumes(tmp_path / "set.dts", 2)
    results = [pack_volume(plan, volume, place) for volume in range(2)]
    tmp = tmp_path / "set-1-of-2.dts.tmp"
    whole = tmp.read_bytes()
    tmp.unlink()
    with pytest.raises(tl.UsageError, match="blocks of this unfinished volume are gone"):
        finish(plan, results, place)
    assert not list(tmp_path.glob("*.dts"))
    tmp.write_bytes(whole[: -BLOCK // 2])
    pack_volume(plan, 1, place)
    assert tmp.read_bytes() == whole
    damaged = bytearray(whole)
    damaged[dts.IMAGE_HEADER_BYTES + BLOCK + 5000] ^= 1
    tmp.write_bytes(damaged)
    pack_volume(plan, 1, place)
    assert tmp.read_bytes() == whole


def test_volumes_of_another_plan_are_not_finished(source: Path, tmp_path: Path) -> None:
    place = LocalVolumes(tmp_path / "set.dts", 2)
    old, new = (plan_of(source, level=0, volumes=2, seed=seed) for seed in (1, 2))
    for volume in range(2):
        pack_volume(old, volume, place)
    with pytest.raises(tl.UsageError, match="packed by another plan"):
        finish(new, kept_results(new, place), place)
    with pytest.raises(tl.UsageError, match="packed by another plan: pack it again with --anew"):
        pack_volume(new, 0, place)
    for volume in range(2):
        pack_volume(new, volume, place, resume=False)
    finish(new, kept_results(new, place), place)
    assert len(digests(tmp_path)) == 2


def test_a_finish_that_is_cut_between_two_names_is_done_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(source, level=0, volumes=3)
    whole, place = LocalVolumes(tmp_path / "whole" / "set.dts", 3), LocalVolumes(tmp_path / "cut" / "set.dts", 3)
    for folder in (tmp_path / "whole", tmp_path / "cut"):
        folder.mkdir()
    finish(plan, [pack_volume(plan, volume, whole) for volume in range(3)], whole)
    for volume in range(3):
        pack_volume(plan, volume, place)
    real = Path.replace

    def replace_all_but_one(path: Path, target: Path) -> Path:
        if path.name == "set-1-of-3.dts.tmp":
            raise KeyboardInterrupt
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace_all_but_one)
        with pytest.raises(KeyboardInterrupt):
            finish(plan, kept_results(plan, place), place)
    assert list(digests(tmp_path / "cut")) == ["set-0-of-3.dts"]
    finish(plan, kept_results(plan, place), place)
    assert digests(tmp_path / "cut") == digests(tmp_path / "whole")


def test_what_has_the_name_of_a_volume_stays_unless_it_is_to_be_replaced(source: Path, tmp_path: Path) -> None:
    plan = plan_of(source, level=0, volumes=2)
    place = LocalVolumes(tmp_path / "set.dts", 2)
    (tmp_path / "set-1-of-2.dts").write_bytes(b"old")
    pack_volume(plan, 0, place)
    with pytest.raises(tl.UsageError, match="the file exists"):
        pack_volume(plan, 1, place)
    pack_volume(plan, 1, place, overwrite=True)
    with pytest.raises(tl.UsageError, match="the file exists"):
        finish(plan, kept_results(plan, place), place)
    assert (tmp_path / "set-1-of-2.dts").read_bytes() == b"old"
    finish(plan, kept_results(plan, place), place, overwrite=True)
    assert (tmp_path / "set-1-of-2.dts").stat().st_size > 3


# ---- plans and results as hostile files ----------------------------------------------------------------------------


def resealed(head: dict[str, Any], body: bytes) -> bytes:
    """A plan with this head and a digest that fits."""
    text = json.dumps(head).encode()
    whole = plan_file.MAGIC + struct.pack("<Q", len(text)) + text + body
    return whole + hashlib.sha256(whole).digest()


def taken_apart(data: bytes) -> tuple[dict[str, Any], bytes]:
    (size,) = struct.unpack_from("<Q", data, 8)
    return json.loads(data[16 : 16 + size]), data[16 + size : -32]


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "level": lambda head: head["options"].update(level=7),
    "a level that is no number": lambda head: head["options"].update(level=True),
    "volumes": lambda head: head["options"].update(volumes=122),
    "no volumes": lambda head: head["options"].update(volumes=0),
    "an unknown switch": lambda head: head["options"].update(colour=1),
    "a switch of another kind": lambda head: head["options"].update(exif="both"),
    "a switch that is a list": lambda head: head["options"].update(check=["markers"]),
    "no seed": lambda head: head["options"].pop("seed"),
    "reference of many volumes": lambda head: head["options"].update(reference=True),
    "min_blocks": lambda head: head["options"].update(min_blocks=5),
    "pictures": lambda head: head.update(pictures=1 << 40),
    "fewer pictures": lambda head: head.update(pictures=3),
    "block header": lambda head: head.update(block_header_size=4097),
    "a small block header": lambda head: head.update(block_header_size=0),
    "a huge block header": lambda head: head.update(block_header_size=1 << 30),
    "oversize": lambda head: head.update(oversize=[]),
    "a size beyond a block": lambda head: head.update(oversize=[[head["oversize"][0][0], BLOCK]]),
    "a picture that is not there": lambda head: head.update(oversize=[[5000, 10]]),
    "refused and kept": lambda head: head.update(refusals=[[head["oversize"][0][0], 1, "x"]]),
    "a reason that is none": lambda head: head.update(refusals=[[1, 1, 1]]),
    "files": lambda head: head.update(files=["ftp", "x"]),
    "files of no path": lambda head: head.update(files=["folder", 3]),
    "a section's size": lambda head: head["sections"][0].__setitem__(1, 1 << 60),
    "a negative size": lambda head: head["sections"][0].__setitem__(1, -1),
    "a section's name": lambda head: head["sections"][0].__setitem__(0, "x"),
    "no sections": lambda head: head.update(sections=[]),
    "left out": lambda head: head.update(left_out={"a": 1}),
    "versions": lambda head: head.update(versions={"trainload": "1"}),
    "deep": lambda head: head.update(left_out=json.loads("[" * 500 + "]" * 500)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_plan_that_contradicts_itself_is_refused(source: Path, change: Callable[[dict[str, Any]], object]) -> None:
    head, body = taken_apart(plan_to_bytes(plan_of(source, level=0, volumes=3)))
    assert plan_from_bytes(resealed(head, body))
    change(head)
    with pytest.raises(tl.FormatError, match=r"\[pack\.plan\].*: a\.plan"):
        plan_from_bytes(resealed(head, body), path="a.plan")


@pytest.mark.parametrize("name", [b"../../etc/passwd", b"/etc/passwd", b"a/./b", b"a/..", b""])
def test_a_plan_whose_names_leave_the_source_is_refused(source: Path, name: bytes) -> None:
    plan = plan_of(source, level=0, volumes=3)
    names = [plan.table.names[n] for n in range(len(plan.table))]
    table = replace(plan.table, names=type(plan.table.names)([*names[:7], name, *names[8:]]))
    with pytest.raises(tl.FormatError, match=r"\[pack\.plan\] \(names"):
        plan_from_bytes(plan_to_bytes(replace(plan, table=table)))


@pytest.mark.parametrize("field", ["labels", "sizes"])
def test_a_plan_whose_numbers_are_impossible_is_refused(source: Path, field: str) -> None:
    plan = plan_of(source, level=0, volumes=3)
    for value in (-1, 1 << 30 if field == "labels" else 1 << 60):
        column = getattr(plan.table, field).copy()
        column[5] = value
        with pytest.raises(tl.FormatError, match=rf"\[pack\.plan\] \({field}"):
            plan_from_bytes(plan_to_bytes(replace(plan, table=replace(plan.table, **{field: column}))))


def test_no_mutation_of_a_plan_or_a_result_goes_unnoticed(source: Path, tmp_path: Path) -> None:
    plan = plan_of(source, level=3, volumes=2)
    data = plan_to_bytes(plan)
    result = pack_volume(plan, 0, LocalVolumes(tmp_path / "set.dts", 2))
    _mutate(data, lambda bad: plan_to_bytes(plan_from_bytes(bad)))
    _mutate(result.to_bytes(plan), lambda bad: VolumeResult.from_bytes(bad, plan, 0, "a.result").to_bytes(plan))


def _mutate(whole: bytes, again: Callable[[bytes], bytes]) -> None:
    chance = random.Random(0)
    for _ in range(300):
        bad = bytearray(whole)
        if chance.random() < 0.3:
            del bad[chance.randrange(len(bad)) :]
        else:
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        try:
            found = again(bytes(bad))
        except (tl.FormatError, tl.UsageError):
            continue
        assert found == whole  # white space, or a key's order


@pytest.mark.parametrize(
    "change",
    [
        lambda result: replace(result, volume=1),
        lambda result: replace(result, records=result.records[1:]),
        lambda result: replace(result, records=(*result.records, result.records[0])),
        lambda result: replace(result, records=(replace(result.records[0], crc=1 << 32), *result.records[1:])),
        lambda result: replace(result, refusals=((0, 1, "x"),)),
    ],
)
def test_a_result_that_does_not_fit_its_plan_is_refused(
    source: Path, tmp_path: Path, change: Callable[[VolumeResult], VolumeResult]
) -> None:
    plan = plan_of(source, level=3, volumes=2)
    result = change(pack_volume(plan, 0, LocalVolumes(tmp_path / "set.dts", 2)))
    with pytest.raises(tl.FormatError, match=r"\[pack\.result\].*: a\.result"):
        VolumeResult.from_bytes(result.to_bytes(plan), plan, 0, "a.result")


# ---- the commands --------------------------------------------------------------------------------------------------


def command(*arguments: object) -> str:
    import trainload.cli.pack_steps  # noqa: F401 - registers the verbs

    done = CliRunner().invoke(app, ["pack", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_the_commands_plan_pack_and_finish(source: Path, tmp_path: Path) -> None:
    tl.pack_images(source, tmp_path / "whole" / "set.dts", level=2, volumes=2, jobs=1, on_error="skip")
    out = tmp_path / "steps" / "set.dts"
    text = command("plan", source, out, "--level", 2, "--volumes", 2, "--on-error", "skip", "--jobs", 1)
    assert "121 pictures in volumes 0 to 1" in text and f"trainload pack finish {out}.plan" in " ".join(text.split())
    with pytest.raises(tl.UsageError, match=r"2 of 2 volumes are not packed yet.* \(0, 1\)"):
        command("finish", f"{out}.plan")
    facts = [json.loads(command("volume", f"{out}.plan", n, "--jobs", 1, "--json")) for n in (1, 0)]
    assert sum(each["pictures"] for each in facts) == 119
    assert "119 pictures of 4 classes at level 2, 2 refused" in command("finish", f"{out}.plan")
    assert digests(out.parent) == digests(tmp_path / "whole")
    with pytest.raises(tl.UsageError, match="volumes 0 to 1, not 2"):
        command("volume", f"{out}.plan", 2)
    with pytest.raises(tl.UsageError, match="the file exists"):
        command("plan", source, out, "--volumes", 2)


# ---- kills ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("volumes", "level", "kills"), [(1, 3, 34), (3, 0, 33), (7, 3, 33)])
def test_workers_and_coordinators_killed_anywhere_leave_a_set_of_the_same_bytes(
    source: Path, tmp_path: Path, volumes: int, level: int, kills: int
) -> None:
    tl.pack_images(source, tmp_path / "whole" / "set.dts", level=level, volumes=volumes, jobs=1, on_error="skip")
    expected = digests(tmp_path / "whole")
    chance = random.Random(volumes)
    killed = 0
    while killed < kills:
        folder = tmp_path / f"round{killed}"
        folder.mkdir()
        plan, out = folder / "set.dts.plan", folder / "set.dts"
        write_plan(plan_of(source, level=level, volumes=volumes), plan)
        places = LocalVolumes(out, volumes)
        for volume in range(volumes):
            while not (folder / f"{Path(places.names[volume]).name}.result").exists():
                killed += _attempts(plan, out, volume, places, chance, kill=killed < kills)
        for _ in range(3):
            _killed_finish(plan, out, chance)
        done = subprocess.run([sys.executable, "-c", STEP, plan, out, "finish"], check=False, capture_output=True)
        assert done.returncode == 0 or b"finished before" in done.stderr
        assert digests(folder) == expected
        assert not list(folder.glob("*.tmp"))


def _attempts(plan: Path, out: Path, volume: int, place: LocalVolumes, chance: random.Random, *, kill: bool) -> int:
    """Two attempts at one volume at once, both killed at some moment; how many were."""
    with running(STEP, plan, out, volume) as first, running(STEP, plan, out, volume) as second:
        if not kill:
            first.wait()
            second.wait()
            return 0
        _wait(first, lambda: place.journal_path(volume).exists())
        time.sleep(chance.random() * 0.12)
        return sum(each.poll() is None for each in (first, second))


def _killed_finish(plan: Path, out: Path, chance: random.Random) -> None:
    """The coordinator, killed about when the volumes get their names."""
    report = Path(f"{out}.report.json")
    with running(STEP, plan, out, "finish") as process:
        _wait(process, report.exists)
        time.sleep(chance.random() * 0.01)


def _wait(process: subprocess.Popen[str], until: Callable[[], bool]) -> None:
    while process.poll() is None and not until():
        time.sleep(0.001)
