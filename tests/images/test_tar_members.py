"""Tars of classes: links, replaced and odd members, hostile headers; pictures and classes are those of the folder."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from test_class_folders import contents, counts, fill, tar_of
from trainload.errors import FormatError, UsageError
from trainload.images.classes import left_out as reasons
from trainload.images.packing.sources import open_source


def test_a_tar_has_the_pictures_and_classes_of_the_folder_whatever_its_links(tmp_path: Path) -> None:
    root = fill(tmp_path / "src", "ant/0.jpg", "ant/1.jpg", "cat/0.jpg", "dog/sub/9.jpg", "empty/")
    (root / "bee").mkdir()
    for n in range(2):
        os.link(root / "ant" / f"{n}.jpg", root / "bee" / f"{n}.jpg")
    (root / "ant" / "forward.jpg").symlink_to("../cat/chain.jpg")
    (root / "cat" / "chain.jpg").symlink_to("./last.jpg")
    (root / "cat" / "last.jpg").symlink_to("../dog/sub/../sub/9.jpg")
    (root / "ant" / "all").symlink_to("../dog")
    (root / "fox").symlink_to("dog/sub")
    (root / "dog" / "sub" / "loop").symlink_to("..")
    (root / "dog" / "gone.jpg").symlink_to("nothing.jpg")
    (root / "dog" / "a.jpg").symlink_to("b.jpg")
    (root / "dog" / "b.jpg").symlink_to("a.jpg")
    folder = open_source(root)[""]
    table = open_source(tar_of(root, tmp_path / "src.tar"))[""]
    assert table.class_names == folder.class_names == ("ant", "bee", "cat", "dog", "empty", "fox")
    assert contents(table) == contents(folder)
    assert counts(table)[reasons.DANGLING] == counts(folder)[reasons.DANGLING] == 2  # also seen through ant/all
    assert counts(table)[reasons.LOOP] >= 3


def members(path: Path, *infos: tuple[str, bytes, str]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, kind, target in infos:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
        archive.add(__file__, "ant/real.jpg")
    return path


def test_links_out_of_a_tar_are_counted_and_never_followed(tmp_path: Path) -> None:
    link, hard = tarfile.SYMTYPE, tarfile.LNKTYPE
    path = members(
        tmp_path / "a.tar",
        ("ant/1.jpg", link, "/etc/passwd"),
        ("ant/2.jpg", link, "../../etc/passwd"),
        ("ant/3.jpg", hard, "../x"),
        ("ant/4.jpg", link, "x" * 5000),
        ("ant/5.jpg", hard, "ant/none.jpg"),
        ("ant/6.jpg", tarfile.FIFOTYPE, ""),
        ("ant/7.jpg", hard, "ant/8.jpg"),
        ("ant/8.jpg", hard, "ant/real.jpg"),
        ("ant/9", link, "."),
        ("ant/real.jpg", tarfile.CHRTYPE, ""),
    )
    table = open_source(path)[""]
    assert [name for name, _, _ in contents(table)] == ["ant/7.jpg", "ant/8.jpg", "ant/real.jpg"]
    assert counts(table) == {reasons.OUTSIDE: 3, reasons.DANGLING: 2, reasons.LOOP: 1, reasons.SPECIAL: 2}
    bad = members(tmp_path / "b.tar", ("ant/0", tarfile.DIRTYPE, ""), ("bee", link, "/mnt/bee"))
    with pytest.raises(UsageError, match="in the place of a class folder leads to nothing in the archive: bee"):
        open_source(bad)


def test_links_to_folders_do_not_multiply_a_hostile_tar(tmp_path: Path) -> None:
    infos = []
    for n in range(40):
        infos += [(f"f{n}/{side}", tarfile.SYMTYPE, f"../f{n + 1}") for side in "ab"]
    infos.append(("f40/x", tarfile.DIRTYPE, ""))
    with pytest.raises(FormatError, match="must not multiply"):
        open_source(members(tmp_path / "a.tar", *infos))


def test_a_later_member_of_the_same_name_replaces_the_earlier(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    for data in (b"old", b"newer"):
        with tarfile.open(path, "a") as archive:
            (tmp_path / "x").write_bytes(data)
            archive.add(tmp_path / "x", "ant/0.jpg")
            archive.add(tmp_path / "x", f"ant/{len(data)}.jpg")
    table = open_source(path)[""]
    assert contents(table) == [("ant/0.jpg", 0, b"newer"), ("ant/3.jpg", 0, b"old"), ("ant/5.jpg", 0, b"newer")]
    assert counts(table) == {reasons.REPLACED: 1}


@pytest.mark.parametrize("size", [-1, -512, -(2**70), 2**70, 2**62, 2**63, -(2**63)])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.GNUTYPE_SPARSE])
def test_hostile_sizes_in_a_tar_are_format_errors(size: int, kind: bytes, tmp_path: Path) -> None:
    path = class_tar(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[124:136] = (size % 256**12).to_bytes(12, "big") if size < 0 else (size | 128 << 88).to_bytes(12, "big")
    raw[156:157] = kind
    path.write_bytes(with_checksum(raw))
    with pytest.raises((FormatError, UsageError)):
        open_source(path)


def class_tar(tmp_path: Path) -> Path:
    return tar_of(fill(tmp_path / "src", "ant/0.jpg", "ant/1.jpg"), tmp_path / "a.tar")


def with_checksum(raw: bytearray, at: int = 0) -> bytes:
    raw[at + 148 : at + 156] = b" " * 8
    raw[at + 148 : at + 156] = b"%06o\0 " % sum(raw[at : at + 512])
    return bytes(raw)


def test_a_damaged_header_inside_a_tar_is_no_end(tmp_path: Path) -> None:
    path = class_tar(tmp_path)
    raw = bytearray(path.read_bytes())
    second = raw.index(b"ant/1.jpg")
    raw[second + 200] ^= 1
    path.write_bytes(raw)
    with pytest.raises(FormatError, match="member header must be whole"):
        open_source(path)
