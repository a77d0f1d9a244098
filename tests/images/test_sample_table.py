"""The section TABL: sets open by it with no read per block, and say exactly what their block headers say."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainload as tl
from dts_builder import DtsBuilder
from trainload.codecs.compression import zstd_compress, zstd_decompress
from trainload.errors import FormatError
from trainload.images.files.volumes import open_volumes, read_tables
from trainload.images.format import dts
from trainload.images.format.sample_table import SampleTable
from trainload.images.reading.dts import DtsReader
from trainload.storage.file import FileSource

NAMES = ("ant", "bee", "cat")
Sizes = Sequence[Sequence[int]]  # of each block's samples
SIZES = st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=6), min_size=1, max_size=2)
WORDS = st.integers(0, 2**32 - 1)


def blocks_of(sizes: Sizes) -> list[list[tuple[bytes, int, str]]]:
    return [
        [(bytes([n + 1]) * size, (n + k) % 3, f"{NAMES[(n + k) % 3]}/{k}-{n}.jpg") for n, size in enumerate(block)]
        for k, block in enumerate(sizes)
    ]


def body_of(blocks: Sequence[Sequence[tuple[bytes, int, str]]], *, labels: bool) -> bytes:
    """The section by the spec's words: planes of bytes, one Zstandard frame."""
    columns = [[len(data) for block in blocks for data, _, _ in block]]
    if labels:
        columns.append([label for block in blocks for _, label, _ in block])
    planes = b"".join(bytes(n >> shift & 255 for n in column) for column in columns for shift in (0, 8, 16, 24))
    return zstd_compress(planes)


def write(path: Path, sizes: Sizes, body: bytes | None, **options: Any) -> Path:
    builder = DtsBuilder(blocks_of(sizes), NAMES, sections={} if body is None else {dts.TAG_TABLE: body}, **options)
    return builder.write(path)


def tables_of(path: Path) -> list[list[int]]:
    ds = DtsReader(path)
    return [column.tolist() for column in (ds.labels, ds.sizes, ds.offset_in_block, ds.block_first)]


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=6), min_size=1, max_size=2),
    labels=st.booleans(),
)
def test_a_table_says_what_the_block_headers_say(
    sizes: Sizes, labels: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("sets")
    body = body_of(blocks_of(sizes), labels=labels)
    with_table, without = write(folder / "a.dts", sizes, body), write(folder / "b.dts", sizes, None)
    assert tables_of(with_table) == tables_of(without)
    assert tl.verify(with_table).good


@given(columns=st.lists(st.tuples(WORDS, WORDS), max_size=50), both=st.booleans())
def test_bytes_become_values_and_bytes_again(columns: list[tuple[int, int]], both: bool) -> None:
    sizes, labels = np.array(columns, np.int64).reshape(-1, 2).T
    body = SampleTable(sizes, labels if both else None).to_bytes()
    found = SampleTable.from_bytes(body, _header(len(columns)), path="a.dts")
    assert found.sizes.tolist() == sizes.tolist()
    if both and columns:
        assert found.labels is not None and found.labels.tolist() == labels.tolist()
    expected = b"".join(
        bytes(n >> shift & 255 for n in column)
        for column in ([sizes.tolist(), labels.tolist()] if both else [sizes.tolist()])
        for shift in (0, 8, 16, 24)
    )
    assert zstd_decompress(body, 1 << 20) == expected


def _header(samples: int) -> dts.DtsHeader:
    header = DtsBuilder(blocks_of([[1]]), NAMES).to_header(0)
    return dataclasses.replace(header, num_samples=samples)


def test_opening_reads_the_header_and_no_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [[10, 20], [30]]
    path = write(tmp_path / "a.dts", sizes, body_of(blocks_of(sizes), labels=True))
    reads: list[tuple[int, int]] = []
    real = FileSource.read_at

    def noted(source: FileSource, offset: int, size: int) -> bytes:
        reads.append((offset, size))
        return real(source, offset, size)

    monkeypatch.setattr(FileSource, "read_at", noted)
    with tl.open_images(path) as ds:
        assert len(ds) == 3
    assert len(reads) <= 4 and all(offset + size <= dts.IMAGE_HEADER_BYTES for offset, size in reads)


LIES = {
    "no frame": (lambda b: b"x" * 30, "dts.table.size"),
    "half a frame": (lambda b: b[: len(b) // 2], "dts.table.size"),
    "a sample more": (lambda b: body_of(blocks_of([[10, 20, 5], [30]]), labels=True), "dts.table.size"),
    "no number": (lambda b: zstd_compress(b""), "dts.table.size"),
    "a bomb": (lambda b: zstd_compress(bytes(1 << 24)), "dts.table.size"),
    "a label of no class": (lambda b: _body([10, 20, 30], [0, 1, 3]), "dts.table.label"),
    "more than a block": (lambda b: _body([10, dts.BLOCK_SIZE, 30], [0, 1, 2]), "dts.table.room"),
    "more than all memory": (lambda b: _body([2**32 - 1] * 3, [0, 1, 2]), "dts.table.room"),
}


def _body(sizes: list[int], labels: list[int]) -> bytes:
    return SampleTable(np.array(sizes, np.int64), np.array(labels, np.int64)).to_bytes()


@pytest.mark.parametrize("lie", LIES)
def test_a_table_that_cannot_be_is_refused_by_its_rule(lie: str, tmp_path: Path) -> None:
    sizes = [[10, 20], [30]]
    make, rule = LIES[lie]
    path = write(tmp_path / "a.dts", sizes, make(body_of(blocks_of(sizes), labels=True)))
    with pytest.raises(FormatError) as caught:
        tl.open_images(path)
    assert caught.value.rule_id == rule and caught.value.path == str(path)
    report = tl.verify(path)
    assert rule in {finding.rule_id for finding in report.findings}


@pytest.mark.parametrize(
    ("field", "sizes", "labels"),
    [("size", [10, 21, 30], [0, 1, 1]), ("offset", [100, 20, 30], [0, 1, 1]), ("label", [10, 20, 30], [0, 2, 1])],
)
def test_verify_finds_a_table_that_differs_from_the_blocks(
    field: str, sizes: list[int], labels: list[int], tmp_path: Path
) -> None:
    path = write(tmp_path / "a.dts", [[10, 20], [30]], _body(sizes, labels))
    [finding] = [one for one in tl.verify(path).findings if one.rule_id == "dts.table.blocks"]
    assert finding.block == 0 and (field == "offset" or field in finding.field)


def test_labels_that_paths_do_not_give_are_no_labels(tmp_path: Path) -> None:
    sizes = [[10, 20], [30]]
    blocks = [[(data, label, f"somewhere/{path}") for data, label, path in block] for block in blocks_of(sizes)]
    builder = DtsBuilder(blocks, NAMES, sections={dts.TAG_TABLE: body_of(blocks, labels=False)})
    with pytest.raises(FormatError, match="label of a class"):
        tl.open_images(builder.write(tmp_path / "a.dts"))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_mutated_tables_give_a_set_or_a_format_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sizes = [[10, 20], [30]]
    body = bytearray(body_of(blocks_of(sizes), labels=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    path = write(
        tmp_path_factory.getbasetemp() / "mutated.dts", sizes, bytes(body[: data.draw(st.integers(0, len(body)))])
    )
    try:
        volumes = open_volumes([str(path)])
        tables = read_tables(volumes)
    except FormatError:
        return
    assert len(tables.sizes) == 3
