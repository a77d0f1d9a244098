"""A class tar inside a training tar is as hostile as the tar around it: links, sizes, headers and names."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

import trainload as tl
from imagenet_archives import TRAIN_TAR
from trainload.images.classes import left_out as reasons
from trainload.images.packing.sources import open_source


def tar_bytes(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def member(name: str, size: int, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, target
    return info


def with_size(data: bytes, field: bytes) -> bytes:
    """The first header of a tar with another size field and the checksum that goes with it."""
    head = bytearray(data[:512])
    head[124:136] = field
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + data[512:]


GOOD = tar_bytes((member("x.JPEG", 3), b"abc"))
HOSTILE = {
    "a size beyond the class tar": with_size(GOOD, b"00000100000\0"),
    "a size beyond the archive": with_size(GOOD, b"77777777777\0"),
    "a negative size": with_size(GOOD, b"\xff" * 12),
    "a size of exabytes": with_size(GOOD, b"\x80" + b"\x7f" * 11),
    "a header of gigabytes": with_size(
        tar_bytes((member("././@LongLink", 3, tarfile.GNUTYPE_LONGNAME), b"abc")), b"17777777777\0"
    ),
    "a name out of the archive": tar_bytes((member("../x.JPEG", 3), b"abc")),
    "no tar": b"hello" * 500,
    "an empty tar": b"",
}


@pytest.mark.parametrize("inner", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_class_tar_is_refused(inner: bytes, tmp_path: Path) -> None:
    path = tmp_path / TRAIN_TAR
    path.write_bytes(
        tar_bytes((member("n01440764.tar", len(GOOD)), GOOD), (member("n01751748.tar", len(inner)), inner))
    )
    with pytest.raises((tl.FormatError, tl.UsageError)):
        open_source(path)


def test_links_of_a_class_tar_do_not_lead_out_of_it(tmp_path: Path) -> None:
    inner = tar_bytes(
        (member("a.JPEG", 0, tarfile.SYMTYPE, "/etc/passwd"), b""),
        (member("b.JPEG", 0, tarfile.SYMTYPE, "../../../etc/passwd"), b""),
        (member("c.JPEG", 0, tarfile.LNKTYPE, "x.JPEG"), b""),
        (member("x.JPEG", 3), b"abc"),
    )
    path = tmp_path / TRAIN_TAR
    path.write_bytes(tar_bytes((member("n01440764.tar", len(inner)), inner)))
    table = open_source(path)[""]
    assert [table.name(n) for n in range(len(table))] == ["n01440764/c.JPEG", "n01440764/x.JPEG"]
    assert table.left_out.facts()[reasons.OUTSIDE]["count"] == 2
