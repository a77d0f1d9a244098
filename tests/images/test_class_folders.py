"""Folders and tars of classes: every entry is used, counted or refused, and both forms give the same classes."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from dts_builder import DtsBuilder, pictures
from picture_folders import class_folders, encoded, picture
from trainload.errors import FormatError, UsageError
from trainload.images.classes import left_out as reasons
from trainload.images.classes.folder_rules import is_split
from trainload.images.classes.given import class_list_of
from trainload.images.packing.sources import PictureTable, open_source
from trainload.images.reading.class_folders import FolderReader
from trainload.storage.file import FileSource

JPEG = encoded(picture(1))


def fill(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if name.endswith("/") else path.write_bytes(JPEG + name.encode())
    return root


def tar_of(root: Path, path: Path) -> Path:
    with tarfile.open(path, "w") as archive:
        for folder in sorted(root.iterdir()):
            archive.add(folder, folder.name)
    return path


def contents(table: PictureTable) -> list[tuple[str, int, bytes]]:
    rows = range(len(table))
    return [(table.name(n), int(table.labels[n]), table.files.read(table.locator(n))) for n in rows]


def counts(table: PictureTable | FolderReader) -> dict[str, int]:
    return {reason: each["count"] for reason, each in table.left_out.facts().items()}


def same_as_reader(root: Path, table: PictureTable) -> FolderReader:
    ds = tl.open_images(root)
    assert isinstance(ds, FolderReader)
    assert ds.class_names == table.class_names
    assert [(ds.source(i), ds[i].label, bytes(ds[i].data)) for i in range(len(ds))] == contents(table)
    assert counts(ds) == counts(table)
    return ds


# ---- what is left out ------------------------------------------------------------------------------------------------


def test_hidden_and_system_entries_are_no_classes_and_no_pictures(tmp_path: Path) -> None:
    names = [
        "ant/0.jpg",
        "bee/0.jpg",
        "ant/._0.jpg",
        "ant/.thumbs/0.jpg",
        "bee/Thumbs.db",
        ".git/x/0.jpg",
        ".ipynb_checkpoints/0-checkpoint.jpg",
        "__MACOSX/ant/0.jpg",
        "lost+found/",
    ]
    root = fill(tmp_path / "src", *names)
    table = open_source(root)[""]
    assert table.class_names == ("ant", "bee")
    assert [name for name, _, _ in contents(table)] == ["ant/0.jpg", "bee/0.jpg"]
    assert counts(table) == {reasons.HIDDEN: 7}
    assert "7 left out" in repr(same_as_reader(root, table))
    packed = open_source(tar_of(root, tmp_path / "src.tar"))[""]
    assert (contents(packed), packed.class_names, counts(packed)) == (contents(table), table.class_names, counts(table))


def test_links_are_followed_in_folders_and_what_leads_nowhere_is_counted(tmp_path: Path) -> None:
    root = fill(tmp_path / "src", "ant/0.jpg", "ant/1.jpg", "bee/deep/2.jpg")
    fill(tmp_path, "disk/5.jpg", "disk/sub/6.jpg")
    (root / "ant" / "part2").symlink_to(tmp_path / "disk")
    (root / "cat").symlink_to("../disk/sub")
    (root / "ant" / "file.jpg").symlink_to("../bee/deep/2.jpg")
    for n in range(5):
        (root / "bee" / f"gone{n}.jpg").symlink_to(f"/not/mounted/{n}.jpg")
    (root / "bee" / "deep" / "up").symlink_to("..")
    (root / "bee" / "all").symlink_to(tmp_path)
    (root / "bee" / "self.jpg").symlink_to("self.jpg")
    os.link(root / "ant" / "0.jpg", root / "bee" / "hard.jpg")
    table = open_source(root)[""]
    assert {name for name, _, _ in contents(table)} == {
        "ant/0.jpg",
        "ant/1.jpg",
        "ant/file.jpg",
        "ant/part2/5.jpg",
        "ant/part2/sub/6.jpg",
        "bee/deep/2.jpg",
        "bee/hard.jpg",
        "cat/6.jpg",
    }
    assert counts(table) == {reasons.DANGLING: 5, reasons.LOOP: 3}
    assert len(table.left_out.facts()[reasons.DANGLING]["examples"]) == 3
    same_as_reader(root, table)


def test_a_class_folder_that_leads_nowhere_or_may_not_be_read_is_an_error_with_its_name(tmp_path: Path) -> None:
    root = fill(tmp_path / "src", "ant/0.jpg", "bee/0.jpg")
    (root / "readme.txt").symlink_to("gone")
    assert counts(open_source(root)[""]) == {reasons.DANGLING: 1}
    (root / "cat").symlink_to("/not/mounted")
    for opened in (open_source, tl.open):
        with pytest.raises(FileNotFoundError, match=r"a link in the place of a class folder .*src/cat"):
            opened(root)
    (root / "cat").unlink()
    (root / "bee").chmod(0)
    drop = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    code = f"import trainload as tl; print(tl.open({str(root)!r}))"
    try:
        done = subprocess.run([*drop, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    finally:
        (root / "bee").chmod(0o755)
    if done.returncode == 0 and os.getuid() == 0:
        pytest.skip("this container's root reads everything")
    assert f"Permission denied: '{root}/bee'" in done.stderr


def test_pipes_and_sockets_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = fill(tmp_path / "src", "ant/0.jpg")
    os.mkfifo(root / "ant" / "1.jpg")
    os.mkfifo(root / "bee")
    (root / "ant" / "2.jpg").symlink_to("1.jpg")
    monkeypatch.chdir(root / "ant")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("3.jpg")
    table = open_source(root)[""]
    assert (len(table), counts(table)) == (1, {reasons.SPECIAL: 4})
    same_as_reader(root, table)
    for path in (root / "bee", Path("/dev/null")):
        with pytest.raises(OSError, match="not a file"):
            FileSource(path)
        with pytest.raises(OSError, match="not a file"):
            tl.open(path)


def test_a_deep_tree_is_walked_whole(tmp_path: Path) -> None:
    deep = "ant/" + "d/" * 1200
    place = tmp_path
    for part in deep.split("/")[:-1]:
        place = place / part
        place.mkdir()
    (place / "x.jpg").write_bytes(JPEG)
    try:
        assert open_source(tmp_path)[""].name(0) == deep + "x.jpg"
    finally:
        subprocess.run(["rm", "-r", str(tmp_path / "ant")], check=True)  # pytest's own clean-up is recursive


def test_a_summary_says_what_was_left_out(tmp_path: Path) -> None:
    root = fill(tmp_path / "src", "ant/0.jpg", "ant/notes.txt", "loose.jpg", ".DS_Store", "bee/")
    summary = tl.pack_images(root, tmp_path / "a.dts", level=0, jobs=1).sets[0]
    assert summary.ignored == 3 and summary.empty_classes == ("bee",)
    assert summary.facts()["left_out"] == {
        reasons.HIDDEN: {"count": 1, "examples": [".DS_Store"]},
        reasons.NO_CLASS: {"count": 1, "examples": ["loose.jpg"]},
        reasons.NO_PICTURE_NAME: {"count": 1, "examples": ["ant/notes.txt"]},
    }


# ---- splits and lists of classes -------------------------------------------------------------------------------------

SPLIT_TREES = [
    ["train/cat/0.jpg", "val/cat/0.jpg", "test/cat/0.jpg"],
    ["Train/cat/0.jpg", "Val/cat/0.jpg"],
    ["training/cat/0.jpg", "validation/cat/0.jpg"],
    ["train/cat/0.jpg", "valid/cat/0.jpg", ".git/x"],
    ["train/0.jpg", "dev/0.jpg"],
    ["train2017/0.jpg", "val2017/0.jpg"],
    ["train/cat/0.jpg", "val/cat/0.jpg", "docs/x"],
    ["train/cat/0.jpg", "annotations/x.jpg"],
    ["test/cat/0.jpg", "test/dog/0.jpg", "extra/0.jpg"],
]


@pytest.mark.parametrize("names", SPLIT_TREES)
def test_splits_side_by_side_are_no_classes(names: list[str], tmp_path: Path) -> None:
    root = fill(tmp_path / "src", *names)
    for opened in (open_source, tl.open):
        with pytest.raises(UsageError, match=r"holds the folders of splits .*classes_as_is=True or --classes-as-is"):
            opened(root)
    as_is = open_source(root, as_is=True)[""]
    assert set(as_is.class_names) == {name.partition("/")[0] for name in names} - {".git"}
    assert tl.open(root, classes_as_is=True).class_names == as_is.class_names  # type: ignore[union-attr]


def test_train_and_val_stay_splits_beside_hidden_folders(tmp_path: Path) -> None:
    root = fill(tmp_path / "src", "train/cat/0.jpg", "val/cat/0.jpg", ".git/x", "__MACOSX/train/x.jpg", "readme.md")
    tables = open_source(root)
    assert {split: table.class_names for split, table in tables.items()} == {"train": ("cat",), "val": ("cat",)}
    assert [table.ignored for table in tables.values()] == [3, 0]
    packed = open_source(tar_of(root, tmp_path / "src.tar"))
    assert [(contents(a), counts(a)) for a in packed.values()] == [(contents(a), counts(a)) for a in tables.values()]


def test_one_class_with_the_name_of_a_split_is_a_class(tmp_path: Path) -> None:
    root = fill(tmp_path / "src", "bus/0.jpg", "train/0.jpg", "plane/0.jpg")
    assert open_source(root)[""].class_names == ("bus", "plane", "train")
    assert open_source(tar_of(root, tmp_path / "src.tar"))[""].class_names == ("bus", "plane", "train")


def test_pictures_directly_in_train_and_val_are_refused_with_a_way_out(tmp_path: Path) -> None:
    root = fill(tmp_path / "src", "train/0.jpg", "val/0.jpg")
    with pytest.raises(UsageError, match=r"train/ of .*outside of the class folders: 0.jpg.*--classes-as-is"):
        open_source(root)
    assert open_source(root, as_is=True)[""].class_names == ("train", "val")


def test_a_tar_of_splits_is_refused_as_the_folder_is(tmp_path: Path) -> None:
    root = fill(tmp_path / "src", "train/cat/0.jpg", "val/cat/0.jpg", "test/cat/0.jpg")
    with pytest.raises(UsageError, match="folders of splits"):
        open_source(tar_of(root, tmp_path / "src.tar"))
    with pytest.raises(UsageError, match="folders of splits"):
        open_source(tar_of(tmp_path, tmp_path.parent / "deep.tar"))


def test_split_names() -> None:
    assert all(map(is_split, ("train", "TEST", "val_set", "dev", "train_images", "test-2", "validation", "eval")))
    assert not any(map(is_split, ("trainer", "cat", "valley", "testudo", "n01440764", "steam train", "")))


def test_a_list_of_classes_numbers_them_in_every_form(tmp_path: Path) -> None:
    train = fill(tmp_path / "train", "cat/0.jpg", "ant/0.jpg", "bee/0.jpg", "bee/1.jpg")
    val = fill(tmp_path / "val", "cat/0.jpg", "bee/0.jpg")
    tl.pack_images(train, tmp_path / "train.dts", level=0, jobs=1)
    (tmp_path / "names.txt").write_bytes(b"\xef\xbb\xbfant\r\nbee\r\ncat\r\n")
    with tl.open_images(tmp_path / "train.dts") as ds:
        for given in (tmp_path / "train.dts", str(tmp_path / "names.txt"), train, ds, ["ant", "bee", "cat"]):
            summary = tl.pack_images(val, tmp_path / "val.dts", level=0, jobs=1, classes=given, overwrite=True)
            assert summary.sets[0].empty_classes == ("ant",)
            for again in (tl.open(tmp_path / "val.dts"), tl.open(val, classes=given)):
                assert again.class_names == ("ant", "bee", "cat")  # type: ignore[union-attr]
                assert again.header.num_classes == 3 if hasattr(again, "header") else True  # type: ignore[union-attr]
                assert sorted(again.labels.tolist()) == [1, 2]  # type: ignore[union-attr]
    other = open_source(train, classes=class_list_of(["cat", "bee", "ant"]))[""]
    assert [name for name, _, _ in contents(other)] == ["cat/0.jpg", "bee/0.jpg", "ant/0.jpg", "bee/1.jpg"]
    assert other.labels.tolist() == [0, 1, 2, 1]


def test_a_class_that_is_not_in_the_list_is_refused_by_name(tmp_path: Path) -> None:
    root = fill(tmp_path / "src", "ant/0.jpg", "zebra/0.jpg")
    for opened in (lambda: open_source(root, classes=class_list_of(["ant"])), lambda: tl.open(root, classes=["ant"])):
        with pytest.raises(UsageError, match="zebra of the class folders is not in the list"):
            opened()


def test_bad_lists_of_classes_are_refused(tmp_path: Path) -> None:
    def text(data: bytes) -> Path:
        (tmp_path / "names.txt").write_bytes(data)
        return tmp_path / "names.txt"

    flat = pictures(3)
    genuine = DtsBuilder([flat], extension=False).write(tmp_path / "genuine.dts")
    unnamed = (["a", "a"], ["a", ""], ["a/b"], [], text(b"a\n\nb\n"), genuine)  # type: ignore[var-annotated]
    for given in unnamed:
        with pytest.raises(UsageError):
            class_list_of(given)
    with pytest.raises(UsageError, match="line 2"):
        class_list_of(text(b"a\n\nb\n"))
    with pytest.raises(UsageError, match="only class folders take"):
        tl.open(genuine, classes=["a"])
    root = fill(tmp_path / "src", "ant/0.jpg")
    for bad in (
        b"",
        b"[]",
        b'{"classes": 3}',
        b'{"classes": [{"folder": "..", "name": 1}]}',
        b"[" * 100_000,
        b'{"classes": [{"folder": "a", "name": "x"}, {"folder": "b", "name": "x"}]}',
    ):
        (root / "trainload-classes.json").write_bytes(bad)
        with pytest.raises(FormatError, match="a list of classes must give"):
            tl.open(root)


def test_the_command_takes_classes_from_a_set(tmp_path: Path) -> None:
    fill(tmp_path, "train/ant/0.jpg", "train/bee/0.jpg", "val/bee/0.jpg")
    command = [str(Path(sys.executable).with_name("trainload")), "pack", "images"]
    for args in (
        ["train", "t.dts"],
        ["val", "v.dts", "--classes", "from", "t.dts"],
        ["val", "w.dts", "--classes=t.dts"],
    ):
        done = subprocess.run(
            [*command, *args, "--level", "0"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert "1 classes have no pictures: ant" in done.stdout
    assert tl.open(tmp_path / "v.dts").labels.tolist() == [1]  # type: ignore[union-attr]


# ---- where the process works ----------------------------------------------------------------------------------------


def test_what_was_opened_by_a_relative_path_outlives_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class_folders(tmp_path / "src", classes=2, each=2)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    tl.pack_images("src", "a.dts", level=0, jobs=1)
    with tl.Recorder("a.hfr", window="100ms") as rec:
        rec.write(rec.add_stream("a", kind="generic"), 1, b"x")
    opened = [tl.open("a.dts"), tl.open("src"), tl.open("a.hfr")]
    loaders = [tl.ImageLoader(ds, batch_size=2, ops=[tl.Resize((8, 8))]) for ds in opened[:2]]
    monkeypatch.chdir("elsewhere")
    assert [sum(len(labels) for _, labels in loader) for loader in loaders] == [4, 4]
    again = [pickle.loads(pickle.dumps(reader)) for reader in opened]
    assert [len(each) for each in again[:2]] == [4, 4]
    assert len(again[0].clone()[3].data) == len(again[0][3].data)
    assert len(again[2].windows) == 1
    assert np.array_equal(again[0].labels, opened[0].labels)  # type: ignore[union-attr]
    assert again[0].verify().good


def test_a_worker_that_ends_with_its_loader_alive_prints_nothing(tmp_path: Path) -> None:
    class_folders(tmp_path / "src", classes=1, each=2)
    code = (
        "import sys, threading, time, trainload as tl\n"
        "loader = tl.ImageLoader(sys.argv[1], batch_size=2, ops=[tl.Resize((8, 8))]); next(iter(loader))\n"
        "threading.Thread(target=lambda kept: time.sleep(100), args=(loader,), daemon=True).start()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "src")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
