"""`trainload pack` takes labels, names and expectations on the command line, and says what was compared."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import trainload as tl
from imagenet_archives import TRAIN_TAR, VAL_TAR, archives, class_folders, label_lists
from trainload.cli import pack_arrays, pack_show  # noqa: F401 (the verbs register themselves)
from trainload.cli.app import app, main
from trainload.cli.terminal import Terminal
from trainload.images.packing import expected_arrays
from trainload.images.packing.expected_arrays import PublishedArrays
from trainload.images.packing.images import _bytes_read
from trainload.images.packing.progress import PackProgress


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("root")
    class_folders(top / "unpacked")
    archives(top / "unpacked", top / "archives")
    (top / "archives" / "labels.txt").write_text(label_lists()["map.txt"])
    return top / "archives"


def run(*arguments: object) -> int:
    """The exit code of the whole command."""
    sys.argv = ["trainload", "pack", *map(str, arguments)]
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


def test_every_switch_reaches_the_files(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", sys.argv)
    switches = ["--labels", root / "labels.txt", "--names", "genuine", "--val-set-prep", "--jobs", 1, "--level", 0]
    assert run("images", root, tmp_path, *switches, "--reference", "--min-blocks", "3,2") == 0
    for name, blocks in (("imagenet_train_lv0.dts", 3), ("imagenet_val_lv0.dts", 2)):
        header = tl.DtsReader([str(tmp_path / name)]).header
        assert (header.num_blocks, header.val_set_prep, header.is_training) == (blocks, 1, "train" in name)


@pytest.mark.parametrize(
    ("switches", "code", "told"),
    [
        ([], 2, "--labels"),
        (["--labels", "{root}/none.txt"], 3, "none.txt"),
        (["--labels", "{root}/labels.txt", "--expect", "imagenet"], 1, "train: 12 pictures, not 1,281,167; "),
        (["--labels", "{root}/labels.txt", "--min-blocks", "1,2,3"], 2, "a number, two (of train and val), or auto"),
        (["--labels", "{root}/labels.txt", "--min-blocks", "0,1", "--reference"], 2, "is at least 1"),
    ],
)
def test_errors_have_their_codes(
    switches: list[str],
    code: int,
    told: str,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", sys.argv)
    assert run("images", root, tmp_path / "out", *(each.format(root=root) for each in switches)) == code
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_one_archive_is_a_file_and_its_name_says_the_split(root: Path, tmp_path: Path) -> None:
    for name, labels in ((TRAIN_TAR, []), (VAL_TAR, ["--labels", str(root / "labels.txt")])):
        done = CliRunner().invoke(app, ["pack", "images", str(root / name), str(tmp_path / f"{name}.dts"), *labels])
        assert done.exit_code == 0, done.output
    assert [tl.DtsReader([str(tmp_path / f"{name}.dts")]).header.is_training for name in (TRAIN_TAR, VAL_TAR)] == [
        True,
        False,
    ]


def test_what_was_compared_is_said(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(expected_arrays.PUBLISHED, "cifar100", PublishedArrays((2, 1)))
    for name, count in (("train.bin", 2), ("test.bin", 1)):
        (tmp_path / name).write_bytes(bytes(3074 * count))
    command = ["pack", "cifar100", str(tmp_path), str(tmp_path / "out"), "--expect", "cifar100", "--val-set-prep"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0 and done.stdout.startswith("as published: cifar100\n")
    assert tl.ArrayReader(tmp_path / "out" / "cifar100_train.dts").header.val_set_prep == 1


def test_the_bar_of_an_archive_that_is_read_counts_megabytes(tmp_path: Path) -> None:
    told: list[PackProgress] = []
    count = _bytes_read(told.append)
    assert count is not None and _bytes_read(None) is None
    count("a.tar", 5 << 20, 9 << 20)
    assert told == [PackProgress("CRC-32 of a.tar", 5, 9, 0, "MB")]
    bar = pack_show.Bar(Terminal(errors=True))
    bar.show(told[0])
    assert bar._bar.tasks[0].fields["unit"] == "MB"


def test_the_summary_as_json_has_what_was_compared(root: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["pack", "images", str(root / TRAIN_TAR), str(tmp_path / "a.dts"), "--json"])
    assert json.loads(done.stdout)["compared"] == []
