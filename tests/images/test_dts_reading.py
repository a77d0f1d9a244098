"""DTS sets are read: samples, blocks, runs, volumes, names; from files built record by record."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trainload as tl
from dts_builder import DtsBuilder, pictures
from trainload.errors import FormatError, UsageError
from trainload.images.format.dts import BLOCK_SIZE
from trainload.images.reading.dts import DtsReader

FLAT = pictures(30)
BLOCKS = [FLAT[:11], FLAT[11:12], [], FLAT[12:]]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return DtsBuilder(BLOCKS).write(tmp_path_factory.mktemp("dts") / "a.dts")


@pytest.fixture(scope="module")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("volumes")
    shared = {"num_volumes": 3, "total_blocks": 4}
    parts = [BLOCKS[:1], BLOCKS[1:3], BLOCKS[3:]]
    return [
        DtsBuilder(part, header=shared | {"volume_id": n}).write(folder / f"v{n}.dts") for n, part in enumerate(parts)
    ]


def test_each_sample_has_its_bytes_label_id_and_source(file: Path) -> None:
    with tl.open_images(file) as ds:
        assert isinstance(ds, DtsReader)
        assert len(ds) == 30
        assert ds.level == 0
        assert ds.class_names == ("ant", "bee", "cat")
        for i, (data, label, source) in enumerate(FLAT):
            sample = ds[i]
            assert (bytes(sample.data), sample.label, sample.id, ds.source(i)) == (data, label, i, source)
        assert bytes(ds[-1].data) == FLAT[-1][0]
        assert [sample.id for sample in ds] == list(range(30))


def test_tables_have_one_row_per_sample_and_no_python_objects(file: Path) -> None:
    with DtsReader(file) as ds:
        assert (ds.labels.dtype, ds.sizes.dtype, ds.offset_in_block.dtype) == (np.int32, np.int64, np.uint32)  # type: ignore[comparison-overlap]
        assert ds.labels.tolist() == [label for _, label, _ in FLAT]
        assert ds.sizes.tolist() == [len(data) for data, _, _ in FLAT]
        assert ds.block_first.tolist() == [0, 11, 12, 12, 30]
        assert ds.block_of.tolist() == [0] * 11 + [1] + [3] * 18
        assert (ds.offsets == ds.block_of.astype(np.int64) * BLOCK_SIZE + ds.offset_in_block).all()


def test_ids_outside_the_set_are_index_errors(file: Path) -> None:
    with DtsReader(file) as ds:
        for wrong in (30, -31):
            with pytest.raises(IndexError):
                ds[wrong]
            with pytest.raises(IndexError):
                ds.samples([0, wrong])
        with pytest.raises(IndexError):
            ds.block(4)


def test_a_block_is_views_into_one_buffer(file: Path) -> None:
    with DtsReader(file) as ds:
        block = ds.block(3)
        assert len(block.data) == BLOCK_SIZE
        assert [sample.id for sample in block] == list(range(12, 30))
        assert all(bytes(sample.data) == FLAT[sample.id][0] for sample in block)
        assert all(sample.data.obj is block.data.obj for sample in block)
        assert list(ds.block(2)) == []
        ds.check_block(3, block.data)


def test_a_block_is_read_into_the_callers_buffer(file: Path) -> None:
    with DtsReader(file) as ds:
        buffer = bytearray(BLOCK_SIZE)
        block = ds.readinto_block(0, buffer)
        assert block[0].data.obj is buffer
        assert bytes(block[10].data) == FLAT[10][0]
        with pytest.raises(UsageError, match="16,777,216"):
            ds.readinto_block(0, bytearray(10))


def test_a_changed_block_fails_its_crc(file: Path) -> None:
    with DtsReader(file) as ds:
        data = bytearray(ds.block(1).data)
        data[5000] ^= 4
        with pytest.raises(FormatError, match="block 1"):
            ds.check_block(1, data)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=st.lists(st.integers(0, 29), max_size=40))
def test_samples_come_in_the_order_asked(volumes: list[Path], ids: list[int]) -> None:
    with DtsReader(volumes) as ds:
        found = ds.samples(ids)
    assert [sample.id for sample in found] == ids
    assert all((bytes(s.data), s.label) == FLAT[s.id][:2] for s in found)


def test_neighbours_share_one_read_and_distant_samples_do_not(file: Path) -> None:
    with DtsReader(file) as ds:
        reads = []
        source = ds._volumes[0].source
        read_at = source.read_at

        def noted(offset: int, size: int) -> bytes:
            reads.append(size)
            return read_at(offset, size)

        source.read_at = noted  # type: ignore[method-assign]
        ds.samples([3, 1, 2, 29, 28])
        assert len(reads) == 2
        assert sum(reads) < 2 * 64 * 1024


def test_volumes_make_one_set_whatever_the_order_of_the_paths(volumes: list[Path], file: Path) -> None:
    pattern = str(volumes[0].parent / "v*.dts")
    for given_paths in (volumes, volumes[::-1], pattern, [pattern]):
        with tl.open_images(given_paths) as ds, DtsReader(file) as whole:
            assert isinstance(ds, DtsReader) and len(ds) == 30
            assert ds.num_blocks == 4
            assert ds.paths == tuple(map(str, volumes))
            assert ds.labels.tolist() == whole.labels.tolist()
            assert ds.block_crcs is not None
            for i in (0, 11, 12, 29):
                assert (bytes(ds[i].data), ds.source(i)) == (FLAT[i][0], FLAT[i][2])
            assert bytes(ds.block(3)[0].data) == FLAT[12][0]
            assert ds.offsets[[0, 11, 12]].tolist() == [4096] * 3  # each volume's block region starts anew


@pytest.mark.parametrize(
    ("name", "pick", "override"),
    [
        ("a volume is missing", [0, 1], {}),
        ("a volume comes twice", [0, 1, 1], {}),
        ("one volume alone", [0], {}),
        ("another level", [0, 1, 2], {"compress_level": 1}),
        ("another number of classes", [0, 1, 2], {"num_classes": 4}),
        ("another split", [0, 1, 2], {"is_training": False}),
        ("total_blocks too large", [0, 1, 2], {"total_blocks": 9}),
        ("another number of volumes", [0, 1, 2], {"num_volumes": 4}),
        ("the UUID of another set", [0, 1, 2], {"volume_id": 2}),
    ],
)
def test_a_wrong_volume_set_is_refused(
    name: str, pick: list[int], override: dict[str, object], volumes: list[Path], tmp_path: Path
) -> None:
    paths = [volumes[n] for n in pick]
    if override:
        level = int(str(override.get("compress_level", 0)))
        uuid = bytes(16) if name.startswith("the UUID") else bytes(range(16))
        builder = DtsBuilder(
            BLOCKS[3:],
            level=level,
            sections={b"CLSS": None, b"UUID": uuid},
            header={"num_volumes": 3, "total_blocks": 4, "volume_id": 2} | override,
        )
        paths[2] = builder.write(tmp_path / "v2.dts")
    with pytest.raises(FormatError) as caught:
        tl.open(paths)
    assert caught.value.path


def test_a_genuine_file_without_extension_opens_with_empty_facts(tmp_path: Path) -> None:
    path = DtsBuilder([FLAT[:5]], extension=False).write(tmp_path / "genuine.dts")
    with DtsReader(path) as ds:
        assert ds.class_names == ()
        assert ds.source(0) == ""
        assert ds.block_crcs is None
        assert ds.facts()["extension"] is None
        ds.check_block(0, ds.block(0).data)


def test_an_unknown_section_and_a_later_extension_version_are_skipped(tmp_path: Path) -> None:
    path = DtsBuilder([FLAT[:5]], sections={b"NEWS": b"anything"}).write(tmp_path / "new.dts")
    with DtsReader(path) as ds:
        assert ds.source(4) == FLAT[4][2]
        assert "NEWS" in ds.facts()["extension"]


def test_an_empty_set_opens(tmp_path: Path) -> None:
    with DtsReader(DtsBuilder([]).write(tmp_path / "empty.dts")) as ds:
        assert (len(ds), ds.num_blocks, ds.samples([])) == (0, 0, [])
        assert ds.facts()["samples"] == 0


def test_a_clone_shares_the_tables_and_not_the_file_handle(file: Path) -> None:
    ds = DtsReader(file)
    copy = ds.clone()
    assert copy.labels is ds.labels
    ds.close()
    ds.close()
    assert bytes(copy[3].data) == FLAT[3][0]
    copy.close()
    with pytest.raises(UsageError, match="closed"):
        ds[3]


def _read_third(ds: DtsReader) -> bytes:
    return bytes(ds[3].data)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_reader_travels_to_processes(file: Path, method: str) -> None:
    with DtsReader(file) as ds:
        assert _read_third(pickle.loads(pickle.dumps(ds))) == FLAT[3][0]
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.apply(_read_third, (ds,)) == FLAT[3][0]


def test_many_threads_share_one_reader(file: Path) -> None:
    wrong: list[int] = []
    with DtsReader(file) as ds:

        def read(start: int) -> None:
            ids = [(start + 7 * n) % 30 for n in range(60)]
            wrong.extend(i for i in ids if bytes(ds[i].data) != FLAT[i][0])

        threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_open_says_what_it_cannot_open(tmp_path: Path) -> None:
    strange = tmp_path / "x.dts"
    strange.write_bytes(b"PK\3\4 something else")
    with pytest.raises(FormatError, match="magic"):
        tl.open(strange)
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(FormatError, match="magic"):
        tl.open(tmp_path / "empty")
    with pytest.raises(FileNotFoundError):
        tl.open(tmp_path / "absent.dts")
    with pytest.raises(UsageError, match="matches no file"):
        tl.open(tmp_path / "*.dtx")
    with pytest.raises(UsageError, match="no path"):
        tl.open([])


def test_a_file_whose_name_looks_like_a_pattern_opens(tmp_path: Path) -> None:
    path = DtsBuilder([FLAT[:2]]).write(tmp_path / "a[1].dts")
    assert len(tl.open(path)) == 2


def test_facts_count_what_is_there(file: Path) -> None:
    with DtsReader(file) as ds:
        facts = ds.facts()
    assert facts["samples"] == 30
    assert facts["samples_per_class"] == [10, 10, 10]
    assert facts["pictures_per_block_most"] == 18
    assert facts["bytes"] == file.stat().st_size
    assert facts["parameters"]["level"] == 0


def test_a_refused_file_leaves_no_handle_open(file: Path, volumes: list[Path], tmp_path: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("only Linux lists the open files of a process")
    bad = DtsBuilder([FLAT[:5]], header={"num_samples": 6}).write(tmp_path / "bad.dts")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        for paths in (bad, volumes[:2], [file, bad], [file, tmp_path / "absent.dts"]):
            with pytest.raises((FormatError, FileNotFoundError)):
                DtsReader(paths)
        DtsReader(file)  # dropped, not closed
    assert len(list(Path("/proc/self/fd").iterdir())) == before
