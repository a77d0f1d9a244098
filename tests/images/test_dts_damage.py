"""Damaged and hostile DTS files: every flipped bit is found and named, any bytes give a value or a FormatError."""

from __future__ import annotations

import os
import shutil
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

import trainload as tl
from dts_builder import DtsBuilder, pictures
from trainload.codecs.compression import zstd_compress
from trainload.errors import FormatError
from trainload.formats.findings import Report
from trainload.images.checking.region import check_region
from trainload.images.format import dts
from trainload.images.reading.dts import DtsReader
from trainload.verify_any import verify

FLAT = pictures(9)
BLOCK_0 = dts.IMAGE_HEADER_BYTES
MAX_MEMORY_BYTES = 100 << 20  # the header region, a block, and what a file of 48 MB may unpack to
_FIXTURE_IS_RESTORED = [HealthCheck.function_scoped_fixture]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return DtsBuilder([FLAT[:4], FLAT[4:]]).write(tmp_path_factory.mktemp("damage") / "a.dts")


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return DtsBuilder([FLAT], extension=False).write(tmp_path_factory.mktemp("damage") / "genuine.dts")


@contextmanager
def changed(path: Path, offset: int, change: Callable[[bytes], bytes], size: int = 1) -> Iterator[None]:
    """The file with `size` bytes at `offset` changed, and as it was again afterwards."""
    fd = os.open(path, os.O_RDWR)
    before = os.pread(fd, size, offset)
    try:
        os.pwrite(fd, change(before), offset)
        yield
    finally:
        os.pwrite(fd, before, offset)
        os.close(fd)


def flip(bit: int) -> Callable[[bytes], bytes]:
    return lambda data: bytes([data[0] ^ (1 << bit)])


def test_an_undamaged_file_is_good(file: Path, genuine: Path) -> None:
    for path, samples in ((file, 9), (genuine, 9)):
        report = verify(path)
        assert report.good, report.findings
        assert report.checked["samples"] == samples


class Memory:
    """A Source of a file's first bytes and zeros up to its size."""

    path = "a.dts"

    def __init__(self, head: bytearray, size: int) -> None:
        self.head, self.size = head, size

    def read_at(self, offset: int, size: int) -> bytes:
        return bytes(self.head[offset : offset + size]).ljust(size, b"\0")

    def readinto_at(self, offset: int, buffer: Any) -> None:
        buffer[:] = self.read_at(offset, len(buffer))

    def will_need(self, offset: int, size: int) -> None: ...

    def close(self) -> None: ...


def test_every_flipped_bit_of_header_and_extension_is_found(file: Path) -> None:
    with file.open("rb") as open_file:
        head = bytearray(open_file.read(8192).rstrip(b"\0"))
    assert len(head) > dts.EXTENSION_OFFSET + 200
    source = Memory(head, file.stat().st_size)
    assert not check_region(source).findings  # type: ignore[arg-type]
    unseen = []
    for offset in range(len(head)):
        for bit in range(8):
            head[offset] ^= 1 << bit
            if not check_region(source).findings:  # type: ignore[arg-type]
                unseen.append((offset, bit))
            head[offset] ^= 1 << bit
    assert unseen == []


@settings(max_examples=100, deadline=None, suppress_health_check=_FIXTURE_IS_RESTORED)
@given(
    offset=st.integers(0, dts.IMAGE_HEADER_BYTES + 2 * dts.BLOCK_SIZE - 1)
    | st.integers(BLOCK_0, BLOCK_0 + 200)
    | st.integers(BLOCK_0 + 4096, BLOCK_0 + 4096 + 2800),
    bit=st.integers(0, 7),
)
@example(offset=dts.IMAGE_HEADER_BYTES - 1, bit=7)
@example(offset=20, bit=0)  # compress_level: the blocks' magics then look wrong
@example(offset=dts.IMAGE_HEADER_BYTES + 2 * dts.BLOCK_SIZE - 1, bit=0)
def test_every_flipped_bit_of_the_file_is_found(file: Path, offset: int, bit: int) -> None:
    with changed(file, offset, flip(bit)):
        report = verify(file)
    assert not report.good
    blocks = {finding.block for finding in report.findings} - {None}
    assert blocks <= ({(offset - BLOCK_0) // dts.BLOCK_SIZE} if offset >= BLOCK_0 else set())


def test_a_flipped_bit_of_a_genuine_header_is_found_but_where_nothing_tells(genuine: Path) -> None:
    free = {16: {0}, 24: {0}, **{28 + n: set(range(8)) for n in range(4)}, **{104 + n: set(range(8)) for n in range(4)}}
    unseen = []
    for offset in range(dts.HEADER_BYTES_USED):
        for bit in set(range(8)) - free.get(offset, set()):
            region = bytearray(144)
            fd = os.open(genuine, os.O_RDONLY)
            region[:] = os.pread(fd, 144, 0)
            os.close(fd)
            region[offset] ^= 1 << bit
            try:
                dts.DtsHeader.from_bytes(bytes(region), file_size=genuine.stat().st_size)
            except FormatError:
                continue  # verify begins with this
            with changed(genuine, offset, flip(bit)):
                if verify(genuine).good:
                    unseen.append((offset, bit))
    assert unseen == []


def test_damage_in_a_picture_names_block_sample_source_and_bytes(file: Path) -> None:
    with DtsReader(file) as ds:
        offset = BLOCK_0 + int(ds.offsets[6])
        size = int(ds.sizes[6])
    with changed(file, offset + 100, flip(3)):
        report = verify(file)
    picture = next(finding for finding in report.findings if finding.sample is not None)
    assert (picture.block, picture.sample, picture.source) == (1, 6, FLAT[6][2])
    assert (picture.offset, picture.end) == (offset, offset + size)
    assert FLAT[6][2] in str(picture)
    block = report.findings[0]
    assert (block.block, block.offset) == (1, BLOCK_0 + dts.BLOCK_SIZE)
    assert "samples 4 to 8" in block.field


def test_damage_between_pictures_names_the_byte(file: Path) -> None:
    with changed(file, BLOCK_0 + 9_000_000, flip(0)):
        report = verify(file)
    assert [f.offset for f in report.findings if f.field == "padding"] == [BLOCK_0 + 9_000_000]
    assert not [f for f in report.findings if f.sample is not None]


def test_the_other_block_is_still_checked_where_the_header_is_damaged(file: Path) -> None:
    with changed(file, 68, lambda _: b"\x09"), changed(file, BLOCK_0 + dts.BLOCK_SIZE + 5000, flip(1)):
        report = verify(file)
    assert {"num_blocks", "HCRC"} <= {finding.field for finding in report.findings}
    assert [finding.block for finding in report.findings if finding.block is not None] == [1]


def decode_refusing(data: memoryview) -> NDArray[np.uint8]:
    if bytes(data) == FLAT[5][0]:
        raise ValueError("this one is broken")
    return np.zeros((3, 4, 3), np.uint8)


@pytest.mark.parametrize("jobs", [1, 2])
def test_decoding_names_the_picture_for_any_number_of_jobs(file: Path, jobs: int) -> None:
    done: list[tuple[int, int]] = []
    report = verify(
        file, decode=decode_refusing, decode_all=True, jobs=jobs, progress=lambda *counts: done.append(counts)
    )
    assert report.checked["decoded"] == 9
    assert [(f.sample, f.source, f.found) for f in report.findings] == [(5, FLAT[5][2], "this one is broken")]
    assert done == [(1, 2), (2, 2)]


def test_verify_says_how_much_of_a_cut_file_is_left(file: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.dts"
    shutil.copyfile(file, cut)
    os.truncate(cut, BLOCK_0 + dts.BLOCK_SIZE + 10)
    report = verify(cut)
    assert [finding.field for finding in report.findings] == ["total_bytes"]
    assert report.checked["blocks"] == 1
    for size in (0, 3, 100, 300, 5000):
        os.truncate(cut, size)
        assert not verify(cut).good


def test_verify_checks_that_volumes_fit(file: Path, tmp_path: Path) -> None:
    def volume(n: int, total: int) -> Path:
        header = {"num_volumes": 2, "volume_id": n, "total_blocks": total}
        return DtsBuilder([FLAT], header=header).write(tmp_path / f"{n}-{total}.dts")

    assert verify([volume(0, 2), volume(1, 2)]).good
    assert verify(volume(0, 2)).good  # one volume alone is whole in itself
    assert [f.field for f in verify([volume(0, 2), volume(1, 3)]).findings] == ["total_blocks"]
    assert [f.field for f in verify([volume(0, 2), volume(0, 2)]).findings] == ["volume_id"]
    header = {"num_volumes": 2, "volume_id": 1, "total_blocks": 2}
    other = DtsBuilder([FLAT], header=header, sections={dts.TAG_UUID: bytes(16)}).write(tmp_path / "other.dts")
    assert [f.field for f in verify([volume(0, 2), other]).findings] == ["UUID"]


def test_verify_takes_several_sets_at_once(file: Path, tmp_path: Path) -> None:
    recording = tmp_path / "a.hfr"
    with tl.Recorder(recording, window="100ms") as rec:
        rec.write(rec.add_stream("a", kind="generic"), 1, b"x")
    flat = {"A": FLAT, "B": FLAT[:5]}

    def volume(name: str, n: int, folder: str = ".") -> Path:
        header = {"num_volumes": 2, "volume_id": n, "total_blocks": 2}
        (tmp_path / folder).mkdir(exist_ok=True)
        sections = {dts.TAG_UUID: name.encode() * 16}
        return DtsBuilder([flat[name]], header=header, sections=sections).write(tmp_path / folder / f"{name}{n}.dts")

    mixed = [file, volume("B", 1), volume("A", 0), recording, volume("A", 1), volume("B", 0)]
    report = verify(mixed)
    assert report.good and len(report.sets) == 4
    assert sorted(each.checked.get("volumes", 0) for each in report.sets) == [0, 1, 2, 2]
    assert report.checked["bytes"] == sum(each.stat().st_size for each in mixed)
    copies = [volume("A", n, folder) for folder in ("x", "y") for n in (0, 1)]
    assert verify(copies).good and len(verify(copies).sets) == 2
    bad = tmp_path / "bad.dts"
    bad.write_bytes(b"nothing of ours")
    report = verify([file, bad, recording])
    assert [finding.path for finding in report.findings] == [str(bad)]
    assert [each["good"] for each in report.to_dict()["sets"]] == [True, False, True]


def test_a_path_table_may_be_as_long_as_the_file_and_no_longer(tmp_path: Path) -> None:
    long = [(data, label, f"ant/{'d' * 2000}{n}") for n, (data, label, _) in enumerate(FLAT)]
    path = DtsBuilder([long]).write(tmp_path / "long.dts")
    assert verify(path).good
    with DtsReader(path) as ds:
        assert ds.source(3) == long[3][2]
    bomb = zstd_compress(b"x" * (path.stat().st_size + 1) + bytes(len(FLAT)))
    path = DtsBuilder([FLAT], sections={dts.TAG_PATHS: bomb}).write(tmp_path / "bomb.dts")
    with DtsReader(path) as ds, pytest.raises(FormatError, match="a name section must unpack"):
        ds.source(0)


# ---- hostile files: a value or a FormatError

U32_FIELDS = [name for name, code in dts.LAYOUT if code == "I"]
EXTREMES = [0, 1, 2, 3, 255, 340, 341, 4096, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]


def read_everything(path: Path) -> None:
    """What a training script touches."""
    with tl.open_images(path) as ds:
        assert isinstance(ds, DtsReader)
        for k in range(min(ds.num_blocks, 3)):
            for sample in ds.block(k):
                assert len(sample.data) == ds.sizes[sample.id]
        ds.samples(np.arange(len(ds))[:500])
        for i in range(min(len(ds), 20)):
            ds.source(i)
        ds.facts()


def gives_a_value_or_a_format_error(path: Path) -> None:
    tracemalloc.start()
    try:
        read_everything(path)
    except FormatError as error:
        assert str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MAX_MEMORY_BYTES
    assert isinstance(verify(path), Report)


@settings(max_examples=50, deadline=None, suppress_health_check=_FIXTURE_IS_RESTORED)
@given(field=st.sampled_from(U32_FIELDS), value=st.sampled_from(EXTREMES) | st.integers(0, 0xFFFFFFFF))
def test_a_lying_header_field_gives_a_value_or_a_format_error(genuine: Path, field: str, value: int) -> None:
    with changed(genuine, dts.FIELD_OFFSET[field], lambda _: struct.pack("<I", value), size=4):
        gives_a_value_or_a_format_error(genuine)


@settings(max_examples=50, deadline=None, suppress_health_check=_FIXTURE_IS_RESTORED)
@given(
    position=st.integers(0, 2) | st.integers(3, 3 + 3 * 9),
    value=st.sampled_from(EXTREMES) | st.integers(0, 1 << 25),
)
def test_a_lying_block_header_gives_a_value_or_a_format_error(genuine: Path, position: int, value: int) -> None:
    with changed(genuine, BLOCK_0 + 4 * position, lambda _: struct.pack("<I", value), size=4):
        gives_a_value_or_a_format_error(genuine)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the packer, from real JPEGs: 2 blocks of small pictures."""
    folder = tmp_path_factory.mktemp("packed")
    rng = np.random.default_rng(3)
    for n in range(24):
        place = folder / "source" / f"class{n % 3}"
        place.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (1200, 1000, 3), np.uint8)
        Image.fromarray(pixels).save(place / f"{n}.JPEG", quality=90)
    tl.pack_images(folder / "source", folder / "real.dts", level=0, jobs=1)
    with tl.open_images(folder / "real.dts") as ds:
        assert isinstance(ds, DtsReader) and ds.num_blocks == 2
    return folder / "real.dts"


@pytest.mark.parametrize("which", ["file", "packed"])
@settings(max_examples=30, deadline=None, suppress_health_check=_FIXTURE_IS_RESTORED)
@given(data=st.data())
def test_spliced_and_cut_files_give_a_value_or_a_format_error(
    which: str, request: pytest.FixtureRequest, tmp_path: Path, data: st.DataObject
) -> None:
    file: Path = request.getfixturevalue(which)
    path = tmp_path / "spliced.dts"
    with file.open("rb") as source:
        head = bytearray(source.read(1500))
    for _ in range(data.draw(st.integers(0, 4), "edits")):
        at = data.draw(st.integers(0, len(head) - 1), "at")
        kind = data.draw(st.sampled_from(["write", "delete", "repeat"]), "kind")
        if kind == "write":
            head[at : at + 4] = data.draw(st.binary(min_size=1, max_size=8), "bytes")
        elif kind == "delete":
            del head[at : at + data.draw(st.integers(1, 40), "count")]
        else:
            head[at:at] = head[at : at + data.draw(st.integers(1, 300), "count")]
    with path.open("wb") as out, file.open("rb") as source:
        out.write(head)
        for k in range(2):
            source.seek(BLOCK_0 + k * dts.BLOCK_SIZE)
            out.seek(BLOCK_0 + k * dts.BLOCK_SIZE)
            out.write(source.read(8000))
        sizes = st.sampled_from([0, 3, 4, 143, 144, 256, 271, 272, 1000, BLOCK_0, BLOCK_0 + dts.BLOCK_SIZE])
        whole = st.just(BLOCK_0 + 2 * dts.BLOCK_SIZE)
        out.truncate(data.draw(whole | sizes | st.integers(0, 1 << 26), "size"))
    gives_a_value_or_a_format_error_or_another_kind(path)


def gives_a_value_or_a_format_error_or_another_kind(path: Path) -> None:
    """As above, for bytes that may call themselves MNIST."""
    try:
        tl.open(path).close()
    except FormatError:
        assert not verify(path).good
        return
    gives_a_value_or_a_format_error(path)


HOSTILE_SECTIONS: dict[str, dict[bytes, bytes]] = {
    "class names that unpack to a gigabyte": {dts.TAG_CLASSES: zstd_compress(bytes(1 << 28))},
    "paths that unpack to a gigabyte": {dts.TAG_PATHS: zstd_compress(b"x" * (1 << 28))},
    "too few names": {dts.TAG_CLASSES: zstd_compress(b"a\0b\0")},
    "names that are no Zstandard": {dts.TAG_CLASSES: b"a\0b\0c\0"},
    "cut Zstandard": {dts.TAG_CLASSES: zstd_compress(b"ant\0bee\0cat\0" * 90)[:-9]},
    "paths without an end": {dts.TAG_PATHS: zstd_compress(b"x" * 100)},
    "a short block table": {dts.TAG_BLOCKS: b"\1\0\0\0"},
    "a block table that counts otherwise": {dts.TAG_BLOCKS: bytes(16)},
    "a short picture table": {dts.TAG_PICTURES: b"\1\0\0\0"},
    "a long UUID": {dts.TAG_UUID: bytes(17)},
    "parameters that are no JSON": {dts.TAG_PARAMETERS: b"{"},
    "parameters that are deep": {dts.TAG_PARAMETERS: b"[" * 100_000},
    "parameters that are a number": {dts.TAG_PARAMETERS: b"7"},
    "parameters that are long": {dts.TAG_PARAMETERS: b" " * (2 << 20) + b"{}"},
    "parameters that are no UTF-8": {dts.TAG_PARAMETERS: b"\xff\xfe"},
}


@pytest.mark.parametrize("name", HOSTILE_SECTIONS)
def test_a_hostile_section_is_a_format_error_and_is_found(name: str, tmp_path: Path) -> None:
    path = DtsBuilder([FLAT[:4], FLAT[4:]], sections=dict(HOSTILE_SECTIONS[name])).write(tmp_path / "hostile.dts")
    gives_a_value_or_a_format_error(path)
    assert not verify(path).good
    with pytest.raises(FormatError) as caught, tl.open_images(path) as ds:
        assert isinstance(ds, DtsReader)
        ds.source(0)
        ds.facts()
        ds.check_block(0, ds.block(0).data)
    assert caught.value.path == str(path)


@settings(max_examples=60, deadline=None, suppress_health_check=_FIXTURE_IS_RESTORED)
@given(
    offset=st.integers(0, 1200)
    | st.integers(BLOCK_0, BLOCK_0 + 300)
    | st.integers(0, BLOCK_0 + 2 * dts.BLOCK_SIZE - 8),
    data=st.binary(min_size=1, max_size=8),
)
def test_bytes_changed_in_a_packed_file_give_a_value_or_a_format_error(packed: Path, offset: int, data: bytes) -> None:
    with changed(packed, offset, lambda _: data, size=len(data)):
        gives_a_value_or_a_format_error(packed)


def _set_entry(row: int, n: int, value: int) -> Callable[[int, bytearray], None]:
    def edit(k: int, block: bytearray) -> None:
        count = struct.unpack_from("<I", block, 8)[0]
        struct.pack_into("<I", block, dts.BLOCK_FIXED_BYTES + 4 * (row * count + n), value)

    return edit


@pytest.mark.parametrize(
    ("name", "edit", "field"),
    [
        ("an offset inside the header", _set_entry(0, 1, 64), "offsets[1]"),
        ("an offset outside the block", _set_entry(0, 3, dts.BLOCK_SIZE), "sizes[3]"),
        ("an offset that overflows", _set_entry(0, 3, 0xFFFFFFFF), "sizes[3]"),
        ("a picture over the next", _set_entry(1, 0, 5000), "offsets[1]"),
        ("a size outside the block", _set_entry(1, 3, 0xFFFFFFFF), "sizes[3]"),
        ("a label that is no class", _set_entry(2, 2, 3), "labels[2]"),
    ],
)
def test_a_wrong_entry_names_block_field_place_and_values(
    name: str, edit: Callable[[int, bytearray], None], field: str, tmp_path: Path
) -> None:
    path = DtsBuilder([FLAT[:4]], extension=False, edit_blocks=edit).write(tmp_path / "wrong.dts")
    with pytest.raises(FormatError, match="block 0") as caught:
        tl.open(path)
    error = caught.value
    assert error.field == field
    assert error.offset is not None and BLOCK_0 + 12 <= error.offset < BLOCK_0 + 12 + 48
    assert error.found and error.expected and error.path == str(path)
