"""MNIST and CIFAR: the original files become DTS files, those are read, and every damaged bit of them is found."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import os
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import trainload as tl
from trainload.errors import FormatError, UsageError
from trainload.images.format.class_names import CLASS_NAMES
from trainload.images.format.dts import ARRAY_HEADER_BYTES, HEADER_BYTES_USED, DtsHeader
from trainload.images.packing.arrays import pack_arrays
from trainload.images.reading.arrays import ArrayReader
from trainload.verify_any import verify

RANDOM = np.random.default_rng(5)
MNIST_COUNTS = {"train": 37, "t10k": 11}


def mnist_files(counts: dict[str, int] = MNIST_COUNTS) -> dict[str, bytes]:
    files = {}
    for prefix, count in counts.items():
        pixels = RANDOM.integers(0, 256, (count, 28, 28), np.uint8)
        labels = RANDOM.integers(0, 10, count, np.uint8)
        files[f"{prefix}-images-idx3-ubyte"] = struct.pack(">4I", 0x803, count, 28, 28) + pixels.tobytes()
        files[f"{prefix}-labels-idx1-ubyte"] = struct.pack(">2I", 0x801, count) + labels.tobytes()
    return files


def cifar_records(count: int, label_bytes: int, num_classes: int) -> bytes:
    records = RANDOM.integers(0, 256, (count, label_bytes + 3072), np.uint8)
    records[:, :label_bytes] %= num_classes
    return records.tobytes()


CIFAR10_FILES = {
    **{f"data_batch_{n}.bin": cifar_records(4 + n, 1, 10) for n in range(1, 6)},
    "test_batch.bin": cifar_records(3, 1, 10),
    "batches.meta.txt": ("\n".join(CLASS_NAMES["CIFAR10"]) + "\n\n").encode(),
}
CIFAR100_FILES = {
    "train.bin": cifar_records(9, 2, 100),
    "test.bin": cifar_records(4, 2, 100),
    "fine_label_names.txt": "\n".join(CLASS_NAMES["CIFAR100"]).encode(),
}
FILES = {"mnist": mnist_files(), "cifar10": CIFAR10_FILES, "cifar100": CIFAR100_FILES}


def as_folder(files: dict[str, bytes], place: Path) -> Path:
    folder = place / "originals" / "below"
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder.parent


def as_gzipped_folder(files: dict[str, bytes], place: Path) -> Path:
    return as_folder({f"{name}.gz": gzip.compress(data) for name, data in files.items()}, place)


def as_tar_gz(files: dict[str, bytes], place: Path) -> Path:
    path = place / "originals.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"some-folder/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("form", [as_folder, as_gzipped_folder, as_tar_gz])
def test_both_splits_come_back_whole_from_any_form(
    kind: Any, form: Callable[[dict[str, bytes], Path], Path], tmp_path: Path
) -> None:
    files = FILES[kind]
    written = pack_arrays(kind, form(files, tmp_path), tmp_path / "out")
    for is_training, entry in zip((True, False), written):
        with tl.open_images(entry["path"]) as ds:
            assert isinstance(ds, ArrayReader)
            labels, pixels = _expected(kind, files, is_training)
            assert ds.header.is_training == is_training
            assert (ds.labels == labels).all() and ds.labels.dtype == np.int32
            assert (ds.pixels == pixels).all() and ds.pixels.flags.c_contiguous
            for i in (0, len(ds) - 1):
                assert (np.asarray(ds[i].data) == pixels[i]).all()
                assert (ds[i].label, ds[i].id) == (labels[i], i)
            assert ds.class_names == CLASS_NAMES[ds.header.dataset_type]
            assert ds.verify().good, ds.verify().findings


def _expected(kind: str, files: dict[str, bytes], is_training: bool) -> tuple[np.ndarray, np.ndarray]:
    """Labels and NHWC pixels, record by record."""
    if kind == "mnist":
        prefix = "train" if is_training else "t10k"
        pixels = np.frombuffer(files[f"{prefix}-images-idx3-ubyte"], np.uint8, offset=16).reshape(-1, 28, 28, 1)
        return np.frombuffer(files[f"{prefix}-labels-idx1-ubyte"], np.uint8, offset=8), pixels
    train = ["train.bin"] if kind == "cifar100" else [f"data_batch_{n}.bin" for n in range(1, 6)]
    test = ["test.bin"] if kind == "cifar100" else ["test_batch.bin"]
    label_bytes = 2 if kind == "cifar100" else 1
    data = b"".join(files[name] for name in (train if is_training else test))
    labels: list[int] = []
    planar: list[Any] = []
    for at in range(0, len(data), label_bytes + 3072):
        labels.append(data[at + label_bytes - 1])
        planes = data[at + label_bytes : at + label_bytes + 3072]
        planar.append([[[planes[1024 * c + 32 * y + x] for c in range(3)] for x in range(32)] for y in range(32)])
    return np.array(labels), np.array(planar, np.uint8)


def counted_mnist_files(place: Path) -> Path:
    """48 pictures whose bytes count up, the values in `packed.json` are of what they give."""
    files = {}
    for prefix, count in MNIST_COUNTS.items():
        pixels, labels = (np.arange(size) % modulus for size, modulus in ((count * 784, 251), (count, 10)))
        files[f"{prefix}-images-idx3-ubyte"] = struct.pack(">4I", 0x803, count, 28, 28) + bytes(pixels.tolist())
        files[f"{prefix}-labels-idx1-ubyte"] = struct.pack(">2I", 0x801, count) + bytes(labels.tolist())
    return as_folder(files, place)


@pytest.mark.parametrize("original", [False, True], ids=["counted", "original"])
def test_mnist_has_the_genuine_bytes(original: bool, at_hand: Callable[[str], Path], tmp_path: Path) -> None:
    known = json.loads(at_hand("shared/spec/conformance.json" if original else "packed.json").read_text())["files"]
    source = at_hand("shared/data/mnist") if original else counted_mnist_files(tmp_path)
    for folder, reference in (("genuine", True), ("default", False)):
        for entry in pack_arrays("mnist", source, tmp_path / folder, reference=reference):
            path = Path(entry["path"])
            data = bytearray(path.read_bytes())
            if not reference:
                header = DtsHeader.from_bytes(bytes(data[:HEADER_BYTES_USED]), file_size=len(data))
                assert header.total_bytes == len(data)
                size = header.num_samples * (28 * 28 * 3 + 1)
                data[72:80] = struct.pack("<Q", 256 + size)
                data[84:96] = struct.pack("<QI", size, size)
            assert hashlib.sha256(data).hexdigest() == known[path.name]["sha256"]
            assert verify(path).good
            assert ArrayReader(path).facts()["genuine_mnist_sizes"] == reference


def test_real_cifar_records_become_pictures(at_hand: Callable[[str], Path], tmp_path: Path) -> None:
    sample = at_hand("shared/data/cifar/cifar10_first2000.bin").read_bytes()
    names = [f"data_batch_{n}.bin" for n in range(1, 6)] + ["test_batch.bin"]
    pack_arrays("cifar10", as_folder(dict.fromkeys(names, sample), tmp_path), tmp_path / "out")
    with ArrayReader(tmp_path / "out/cifar10_test.dts") as ds:
        assert len(ds) == 2000
        assert ds.labels[:1].tolist() == [sample[0]]
        assert ds.pixels[0, 0, 0].tolist() == [sample[1], sample[1025], sample[2049]]
    fine = at_hand("shared/data/cifar/cifar100_train_sample100.bin").read_bytes()
    (tmp_path / "c100").mkdir()
    pack_arrays("cifar100", as_folder({"train.bin": fine, "test.bin": fine}, tmp_path / "c100"), tmp_path / "out")
    with ArrayReader(tmp_path / "out/cifar100_train.dts") as ds:
        assert ds.labels.tolist() == [fine[3074 * n + 1] for n in range(100)]


@pytest.mark.parametrize(
    ("kind", "names"), [("cifar10", ["data_batch_1", "batches.meta"]), ("cifar100", ["train", "test", "meta"])]
)
def test_python_pickles_are_refused_and_not_opened(kind: Any, names: list[str], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"pickles.*binary\.tar\.gz"):
        pack_arrays(kind, as_folder(dict.fromkeys(names, b"\x80\x02}."), tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("another magic", lambda d: b"\0\0\x08\x01" + d[4:]),
        ("more pictures than bytes", lambda d: d[:4] + struct.pack(">I", 1 << 31) + d[8:]),
        ("another size", lambda d: d[:8] + struct.pack(">2I", 14, 56) + d[16:]),
        ("cut", lambda d: d[:-1]),
        ("longer", lambda d: d + b"\0"),
        ("a bare head", lambda d: d[:10]),
        ("empty", lambda d: b""),
        ("cut gzip", lambda d: gzip.compress(d)[:-20]),
        ("broken gzip", lambda d: gzip.compress(d)[:300] + b"xxxx" + gzip.compress(d)[304:]),
    ],
)
def test_a_broken_original_is_a_format_error(name: str, change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    files = dict(FILES["mnist"])
    files["train-images-idx3-ubyte"] = change(files["train-images-idx3-ubyte"])
    with pytest.raises(FormatError, match="train-images"):
        pack_arrays("mnist", as_folder(files, tmp_path), tmp_path / "out")


def test_counts_labels_and_names_that_do_not_fit_are_format_errors(tmp_path: Path) -> None:
    other = mnist_files({"train": 12, "t10k": 11})
    files = dict(FILES["mnist"]) | {"train-labels-idx1-ubyte": other["train-labels-idx1-ubyte"]}
    wrong_label = dict(CIFAR10_FILES) | {"test_batch.bin": b"\x0a" + bytes(3072)}
    wrong_names = dict(CIFAR10_FILES) | {"batches.meta.txt": b"a\nb\n"}
    half_record = dict(CIFAR10_FILES) | {"test_batch.bin": bytes(3000)}
    for n, (kind, bad) in enumerate(
        [("mnist", files), ("cifar10", wrong_label), ("cifar10", wrong_names), ("cifar10", half_record)]
    ):
        (tmp_path / str(n)).mkdir()
        with pytest.raises(FormatError):
            pack_arrays(kind, as_folder(bad, tmp_path / str(n)), tmp_path / "out")  # type: ignore[arg-type]


def test_a_cut_tar_is_a_format_error(tmp_path: Path) -> None:
    path = as_tar_gz(FILES["cifar10"], tmp_path)
    os.truncate(path, path.stat().st_size * 2 // 3)
    with pytest.raises(FormatError):
        pack_arrays("cifar10", path, tmp_path / "out")


def test_both_spellings_of_the_idx_names_are_found(tmp_path: Path) -> None:
    files = {name.replace("-idx", ".idx"): data for name, data in FILES["mnist"].items()}
    assert [e["samples"] for e in pack_arrays("mnist", as_folder(files, tmp_path), tmp_path / "out")] == [37, 11]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    files = dict(FILES["cifar10"])
    del files["data_batch_4.bin"]
    with pytest.raises(UsageError, match=r"data_batch_4\.bin"):
        pack_arrays("cifar10", as_folder(files, tmp_path), tmp_path / "out")
    with pytest.raises(UsageError, match="t10k-labels-idx1-ubyte"):
        (tmp_path / "m").mkdir()
        pack_arrays("mnist", as_folder(dict(list(FILES["mnist"].items())[:3]), tmp_path / "m"), tmp_path / "out")
    with pytest.raises(UsageError, match="kind"):
        pack_arrays("svhn", tmp_path, tmp_path / "out")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="neither"):
        pack_arrays("mnist", __file__, tmp_path / "out")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("packed")
    pack_arrays("mnist", as_folder(FILES["mnist"], folder), folder)
    pack_arrays("mnist", folder / "originals", folder / "genuine", reference=True)
    (folder / "c").mkdir()
    pack_arrays("cifar100", as_folder(FILES["cifar100"], folder / "c"), folder)
    return [folder / "mnist_train.dts", folder / "genuine/mnist_train.dts", folder / "cifar100_test.dts"]


def test_every_flipped_bit_of_an_array_header_is_found_but_is_training(packed: list[Path], tmp_path: Path) -> None:
    for path in packed:
        data = bytearray(path.read_bytes())
        copy = tmp_path / "flipped.dts"
        unseen = []
        for place in (*range(8 * HEADER_BYTES_USED), *range(8 * HEADER_BYTES_USED, 8 * ARRAY_HEADER_BYTES, 9)):
            data[place // 8] ^= 1 << place % 8
            copy.write_bytes(data)
            if verify(copy).good:
                unseen.append(place)
            data[place // 8] ^= 1 << place % 8
        assert unseen == [8 * 16]  # is_training: of a set of no standard size nothing else depends on it


def test_is_training_of_a_standard_set_is_held_to_its_count(tmp_path: Path) -> None:
    files = mnist_files({"train": 37, "t10k": 10_000})
    path = Path(pack_arrays("mnist", as_folder(files, tmp_path), tmp_path)[1]["path"])
    data = bytearray(path.read_bytes())
    data[16] ^= 1
    path.write_bytes(data)
    assert [finding.field for finding in verify(path).findings] == ["is_training"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=st.integers(0, 2), data=st.data())
def test_any_bytes_give_a_value_or_a_format_error(
    packed: list[Path], which: int, data: st.DataObject, tmp_path: Path
) -> None:
    content = bytearray(packed[which].read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, 300) | st.integers(0, len(content) - 1))
        content[at : at + 4] = data.draw(st.binary(max_size=6))
    path = tmp_path / "mutated.dts"
    path.write_bytes(content[: data.draw(st.just(1 << 30) | st.integers(0, 400))])
    try:
        with tl.open_images(path) as ds:
            assert isinstance(ds, ArrayReader)
            assert len(ds.pixels) == len(ds) == len(list(ds))
            ds.facts()
    except FormatError:
        assert not verify(path).good


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(offset=st.integers(ARRAY_HEADER_BYTES, 10_000), bit=st.integers(0, 7))
@example(offset=ARRAY_HEADER_BYTES, bit=7)
def test_every_flipped_bit_of_the_data_is_found(packed: list[Path], offset: int, bit: int, tmp_path: Path) -> None:
    data = bytearray(packed[0].read_bytes())
    data[offset] ^= 1 << bit
    (tmp_path / "flipped.dts").write_bytes(data)
    assert "crc_code" in {finding.field for finding in verify(tmp_path / "flipped.dts").findings}


def test_a_label_of_no_class_is_refused_with_its_place(packed: list[Path], tmp_path: Path) -> None:
    data = bytearray(packed[0].read_bytes())
    data[ARRAY_HEADER_BYTES + 5] = 10
    (tmp_path / "label.dts").write_bytes(data)
    with pytest.raises(FormatError) as caught:
        tl.open(tmp_path / "label.dts")
    assert (caught.value.field, caught.value.offset) == ("labels[5]", ARRAY_HEADER_BYTES + 5)


def test_an_array_reader_pickles_as_its_path_and_closes_twice(packed: list[Path]) -> None:
    ds = ArrayReader(packed[0])
    assert (pickle.loads(pickle.dumps(ds)).labels == ds.labels).all()
    assert ds[-1].id == len(ds) - 1
    with pytest.raises(IndexError):
        ds[len(ds)]
    pixels = ds.pixels
    ds.close()
    ds.close()
    assert pixels.shape == (37, 28, 28, 1)


def test_the_same_files_give_the_same_bytes_twice(tmp_path: Path) -> None:
    src = as_folder(FILES["cifar10"], tmp_path)
    first, second = (pack_arrays("cifar10", src, tmp_path / name) for name in ("a", "b"))
    assert [e["crc"] for e in first] == [e["crc"] for e in second]
    assert (tmp_path / "a/cifar10_train.dts").read_bytes() == (tmp_path / "b/cifar10_train.dts").read_bytes()
    assert dataclasses.asdict(ArrayReader(tmp_path / "a/cifar10_test.dts").header)["compression_ratio"] == 1.0
