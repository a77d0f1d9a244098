"""Folders, tars and tars of tars of the same pictures give the same list, in the spec's order, and nothing escapes."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from picture_folders import class_folders, encoded, picture, read_packed
from trainload.images.packing.sources import open_source


def tar_of(root: Path, path: Path, prefix: str = "") -> Path:
    with tarfile.open(path, "w") as archive:
        archive.add(root, arcname=prefix or ".")
    return path


def tar_of_class_tars(root: Path, path: Path) -> Path:
    with tarfile.open(path, "w") as archive:
        for folder in sorted(root.iterdir(), reverse=True):
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as class_tar:
                for file in sorted(folder.iterdir(), reverse=True):
                    class_tar.add(file, arcname=file.name)
            info = tarfile.TarInfo(f"{folder.name}.tar")
            info.size = len(inner.getvalue())
            inner.seek(0)
            archive.addfile(info, inner)
    return path


def write_tar(path: Path, members: list[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def test_all_forms_of_a_source_pack_to_the_same_samples(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "src")
    forms = {
        "folder": root,
        "tar": tar_of(root, tmp_path / "a.tar"),
        "tar with a top folder": tar_of(root, tmp_path / "b.tar", "top/deep"),
        "class tars": tar_of_class_tars(root, tmp_path / "c.tar"),
    }
    packed = {}
    for name, form in forms.items():
        tl.pack_images(form, tmp_path / f"{name}.dts", level=0, jobs=1)
        file = read_packed(tmp_path / f"{name}.dts")
        packed[name] = (file.samples, file.labels, tl.DtsReader(tmp_path / f"{name}.dts").source(3))
    assert all(each == packed["folder"] for each in packed.values())


def test_the_list_is_sorted_by_class_and_then_by_file_name_across_classes(tmp_path: Path) -> None:
    for folder, names in {"b": ["1.jpeg", "3.jpeg"], "a": ["2.jpeg", "3.jpeg"], "a-b": ["3.jpeg"]}.items():
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_bytes(b"x")
    table = open_source(tmp_path)[""]
    assert [table.name(n) for n in range(5)] == ["b/1.jpeg", "a/2.jpeg", "a/3.jpeg", "a-b/3.jpeg", "b/3.jpeg"]
    assert table.class_names == ("a", "a-b", "b")
    assert table.labels.tolist() == [2, 0, 0, 1, 2]


def test_empty_classes_keep_their_labels_and_other_files_are_counted(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "src", classes=2, each=1)
    (root / "a-empty").mkdir()
    (root / "class0" / "notes.txt").write_text("no picture")
    (root / "class0" / "deeper").mkdir()
    (root / "class0" / "deeper" / "z.PNG").write_bytes(encoded(picture(1), "PNG"))
    table = open_source(root)[""]
    assert table.class_names == ("a-empty", "class0", "class1")
    assert (sorted(table.labels.tolist()), table.ignored) == ([1, 1, 2], 1)
    assert "class0/deeper/z.PNG" in {table.name(n) for n in range(len(table))}


@pytest.mark.parametrize("as_tar", [False, True])
def test_train_and_val_become_two_files_with_common_labels(as_tar: bool, tmp_path: Path) -> None:
    root = tmp_path / "set"
    class_folders(root / "train", classes=3, each=2)
    class_folders(root / "val", classes=3, each=1)
    for file in (root / "val" / "class1").iterdir():
        file.unlink()
    (root / "val" / "class1").rmdir()
    source = tar_of(root, tmp_path / "set.tar", "imagenet") if as_tar else root
    summary = tl.pack_images(source, tmp_path / "out", level=0, jobs=1)
    assert [Path(each.paths[0]).name for each in summary.sets] == ["train.dts", "val.dts"]
    train, val = read_packed(tmp_path / "out" / "train.dts"), read_packed(tmp_path / "out" / "val.dts")
    assert (train.u32(16), val.u32(16)) == (1, 0)
    assert (train.u32(28), val.u32(28)) == (3, 3)
    assert sorted(val.labels) == [0, 2]


@pytest.mark.parametrize("name", ["../a/x.jpeg", "/etc/a/x.jpeg", "a/../../x.jpeg"])
def test_a_tar_name_that_leaves_the_archive_is_refused(name: str, tmp_path: Path) -> None:
    path = write_tar(tmp_path / "bad.tar", [(name, b"x")])
    with pytest.raises(tl.FormatError, match="below the archive's folder"):
        open_source(path)


def test_links_in_a_tar_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE):
            info = tarfile.TarInfo(f"a/{kind!r}.jpeg")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        info = tarfile.TarInfo("a/real.jpeg")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    table = open_source(path)[""]
    assert [table.name(n) for n in range(len(table))] == ["a/real.jpeg"]
    assert table.files.read(table.locator(0)) == b"abc"


def test_a_tar_that_ends_early_or_is_compressed_or_is_none_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "whole.tar", [("a/x.jpeg", bytes(5000)), ("a/y.jpeg", bytes(5000))])
    (tmp_path / "cut.tar").write_bytes(path.read_bytes()[:8000])
    with pytest.raises(tl.FormatError):
        open_source(tmp_path / "cut.tar")
    with tarfile.open(tmp_path / "z.tar.gz", "w:gz") as archive:
        archive.add(path, arcname="a/x.jpeg")
    with pytest.raises(tl.UsageError, match="compression"):
        open_source(tmp_path / "z.tar.gz")
    (tmp_path / "text").write_bytes(b"hello" * 500)
    with pytest.raises(tl.UsageError):
        open_source(tmp_path / "text")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(tl.UsageError):
        open_source(tmp_path / "empty")


def test_a_source_without_classes_of_pictures_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loose.jpeg").write_bytes(encoded(picture(1)))
    with pytest.raises(tl.UsageError, match="no classes of pictures"):
        tl.pack_images(tmp_path, tmp_path / "out.dts")


def test_names_that_are_no_utf_8_survive(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "a"
    folder.mkdir(parents=True)
    with open(os.fsencode(folder) + b"/caf\xe9.jpeg", "wb") as file:
        file.write(encoded(picture(1)))
    tl.pack_images(tmp_path / "src", tmp_path / "set.dts", level=0, jobs=1)
    assert os.fsencode(tl.DtsReader(tmp_path / "set.dts").source(0)) == b"a/caf\xe9.jpeg"


def test_a_table_of_many_pictures_costs_few_bytes_each(tmp_path: Path) -> None:
    members = [(f"c{n % 7}/{n:06d}.jpeg", b"") for n in range(3000)]
    table = open_source(write_tar(tmp_path / "many.tar", members))[""]
    assert len(table) == 3000 and np.all(table.sizes == 0)
    arrays = table.labels.nbytes + table.sizes.nbytes + len(table.names.blob)
    assert arrays / 3000 < 40
