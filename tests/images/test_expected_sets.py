"""`expect`: what is packed is what was published, or nothing is packed and everything that differs is named."""

from __future__ import annotations

import dataclasses
import gzip
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from imagenet_archives import CLASSES, TRAIN_TAR, VAL_CLASSES, VAL_TAR, add, archives, class_folders, label_lists
from trainload.images.packing import expected, expected_arrays, images
from trainload.images.packing.expected import PublishedSet, PublishedSplit, file_crc, published_set
from trainload.images.packing.expected_arrays import PublishedArrays


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = archives(class_folders(tmp_path / "unpacked"), tmp_path / "archives")
    (folder / "labels.txt").write_text(label_lists()["map.txt"])
    return folder


@pytest.fixture
def small_imagenet(root: Path, monkeypatch: pytest.MonkeyPatch) -> PublishedSet:
    """ImageNet is what `root` holds."""
    labels = zlib.crc32(np.array(VAL_CLASSES, "<u2").tobytes())
    crcs = {name: zlib.crc32((root / name).read_bytes()) for name in (TRAIN_TAR, VAL_TAR)}
    sizes = {name: (root / name).stat().st_size for name in crcs}
    splits = {
        "train": PublishedSplit(12, 3, None, sizes[TRAIN_TAR], crcs[TRAIN_TAR]),
        "val": PublishedSplit(6, None, labels, sizes[VAL_TAR], crcs[VAL_TAR]),
    }
    published = PublishedSet("ImageNet, made small", CLASSES, splits)
    monkeypatch.setattr(images, "published_set", lambda name: published)
    return published


def pack(source: Path, out: Path, **options: object) -> tuple[str, ...]:
    summary = tl.pack_images(source, out, level=0, jobs=1, expect="imagenet", **options)  # type: ignore[arg-type]
    return summary.compared


def test_archives_as_published_are_packed_and_what_was_compared_is_told(
    root: Path, small_imagenet: PublishedSet, tmp_path: Path
) -> None:
    crcs = [f"{split.archive_crc:08x}" for split in small_imagenet.splits.values()]
    assert pack(root, tmp_path / "out", labels=root / "labels.txt") == (
        f"train: 4 classes, 12 pictures, CRC-32 {crcs[0]} of the archive",
        f"val: 4 classes, 6 pictures, every label, CRC-32 {crcs[1]} of the archive",
    )
    assert pack(tmp_path / "unpacked", tmp_path / "folders") == (
        "train: 4 classes, 12 pictures",
        "val: 4 classes, 6 pictures, every label",
    )
    assert len(pack(root / TRAIN_TAR, tmp_path / "train.dts")) == 1


def test_everything_that_is_missing_or_broken_is_in_one_list(
    root: Path, small_imagenet: PublishedSet, tmp_path: Path
) -> None:
    unpacked = tmp_path / "unpacked"
    for file in (unpacked / "train" / CLASSES[1]).iterdir():
        file.unlink()
    (unpacked / "train" / CLASSES[0] / f"{CLASSES[0]}_99.JPEG").unlink()
    (unpacked / "train" / "n00000001").mkdir()
    for file in (unpacked / "val" / CLASSES[3]).iterdir():
        file.rename(unpacked / "val" / CLASSES[2] / file.name)
    with pytest.raises(tl.FormatError, match="must be ImageNet, made small as it was published") as error:
        pack(unpacked, tmp_path / "out")
    assert error.value.found.split("; ") == [
        "train: 1 of 4 classes are missing (n01751748)",
        "train: 1 classes are none of its (n00000001)",
        "train: 8 pictures, not 12",
        "train: 1 classes have not 3 pictures (n01440764 has 2)",
        "val: 1 of 4 classes are missing (n04263257)",
        "val: 1 classes are none of its (n00000001)",
    ]
    assert not (tmp_path / "out").exists()


def test_a_changed_archive_is_found_by_its_size_or_its_crc(
    root: Path, small_imagenet: PublishedSet, tmp_path: Path
) -> None:
    good = (root / TRAIN_TAR).read_bytes()
    (root / TRAIN_TAR).write_bytes(good + bytes(512))
    with pytest.raises(tl.FormatError, match=f"{TRAIN_TAR} has {len(good) + 512:,} bytes, not {len(good):,}"):
        pack(root, tmp_path / "out", labels=root / "labels.txt")
    at = good.index(b"\xff\xda") + 50  # inside a picture
    (root / TRAIN_TAR).write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    with pytest.raises(tl.FormatError, match=rf"train: {TRAIN_TAR} has the CRC-32 [0-9a-f]{{8}}, not"):
        pack(root, tmp_path / "out", labels=root / "labels.txt")


def test_wrong_labels_and_a_missing_split_are_found(root: Path, small_imagenet: PublishedSet, tmp_path: Path) -> None:
    swapped = label_lists()["map.txt"].replace(CLASSES[2], CLASSES[0])
    (root / "labels.txt").write_text(swapped.replace(CLASSES[1], CLASSES[2], 1))
    with pytest.raises(tl.FormatError, match="val: some labels are not those of the development kit"):
        pack(root, tmp_path / "out", labels=root / "labels.txt")
    (root / VAL_TAR).unlink()
    with pytest.raises(tl.FormatError, match="found val is missing"):
        pack(root, tmp_path / "out")


def test_the_numbers_of_imagenet_are_the_published_ones() -> None:
    published = published_set("imagenet")
    assert (published.splits["train"].pictures, published.splits["val"].pictures) == (1_281_167, 50_000)
    assert f"{published.splits['train'].archive_crc:08x}" == "01f6e856"
    assert f"{published.splits['val'].archive_crc:08x}" == "7c951e53"
    check = 0  # the published exporter's check of the class folders: their numbers, all in one exclusive or
    for name in published.class_names:
        check ^= int(name[1:])
    assert (len(published.class_names), f"{check:08x}") == (1000, "007d4f42")
    with pytest.raises(tl.UsageError, match="only imagenet is known, not coco"):
        published_set("coco")


def test_an_archive_is_read_in_parts_and_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected, "_READ_BYTES", 1000)
    (tmp_path / "a").write_bytes(bytes(range(250)) * 9)
    told: list[tuple[str, int, int]] = []
    assert file_crc(str(tmp_path / "a"), lambda *args: told.append(args)) == zlib.crc32(bytes(range(250)) * 9)
    assert [done for _, done, _ in told] == [1000, 2000, 2250]


def test_the_labels_of_the_sample_are_those_of_imagenets_classes(at_hand: Callable[[str], Path]) -> None:
    names = sorted(path.name for path in (at_hand("shared/data/imagenet-sample/train")).iterdir())
    assert tuple(names) == published_set("imagenet").class_names


def test_another_order_of_the_classes_differs(root: Path, small_imagenet: PublishedSet, tmp_path: Path) -> None:
    with pytest.raises(tl.FormatError, match="another order than that of their names"):
        pack(root / TRAIN_TAR, tmp_path / "a.dts", classes=CLASSES[::-1])


# ---- MNIST and CIFAR ------------------------------------------------------------------------------------------------


def cifar_files(counts: tuple[int, int]) -> dict[str, bytes]:
    """CIFAR-10's files with so many pictures of each class in a training file and in the test file."""
    names = [*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"]
    files = {}
    for name in names:
        each = counts[name == "test_batch.bin"]
        files[name] = b"".join(bytes([label]) + bytes([label]) * 3072 for label in [*range(10)] * each)
    return files


def test_the_original_mnist_is_known_and_one_bit_of_it_is_not(at_hand: Callable[[str], Path], tmp_path: Path) -> None:
    source = at_hand("shared/data/mnist")
    assert len(tl.pack_arrays("mnist", source, tmp_path, expect="mnist")) == 2
    (tmp_path / "changed").mkdir()
    for file in source.iterdir():
        data = bytearray(gzip.decompress(file.read_bytes()))
        if file.name.startswith("t10k-images"):
            data[1000] ^= 1
        (tmp_path / "changed" / file.name.removesuffix(".gz")).write_bytes(data)
    with pytest.raises(tl.FormatError, match=r"found t10k-images-idx3-ubyte has the CRC-32 [0-9a-f]{8}, not 91373bdf,"):
        tl.pack_arrays("mnist", tmp_path / "changed", tmp_path / "out", expect="mnist")
    assert not (tmp_path / "out").exists()


def test_cifar_is_held_to_its_counts_and_its_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, data in cifar_files((2, 1)).items():
            add(tar, f"cifar-10-batches-bin/{name}", data)
    with pytest.raises(
        tl.FormatError, match=r"train: 100 pictures, not 50,000; test: 10 pictures, not 10,000; cifar-10-b"
    ):
        tl.pack_arrays("cifar10", archive, tmp_path / "out", expect="cifar10")
    size, crc = archive.stat().st_size, zlib.crc32(archive.read_bytes())
    published = PublishedArrays((100, 10), (10, 1), {}, archive.name, size, crc)
    monkeypatch.setitem(expected_arrays.PUBLISHED, "cifar10", published)
    for source in (archive, tmp_path):  # a folder that holds it
        tl.pack_arrays("cifar10", source, tmp_path / "out", expect="cifar10", overwrite=True)
    monkeypatch.setitem(expected_arrays.PUBLISHED, "cifar10", dataclasses.replace(published, archive_crc=crc ^ 1))
    with pytest.raises(tl.FormatError, match=f"has the CRC-32 {crc:08x}, not {crc ^ 1:08x}"):
        tl.pack_arrays("cifar10", archive, tmp_path / "out", expect="cifar10", overwrite=True)
    files = tmp_path / "files"
    files.mkdir()
    for name, data in cifar_files((2, 1)).items():
        (files / name).write_bytes(data)
    tl.pack_arrays("cifar10", files, tmp_path / "out", expect="cifar10", overwrite=True)
    (files / "test_batch.bin").write_bytes(bytes([1]) + cifar_files((2, 1))["test_batch.bin"][1:])
    with pytest.raises(tl.FormatError, match="found test: 2 classes have not 1 pictures"):
        tl.pack_arrays("cifar10", files, tmp_path / "out", expect="cifar10", overwrite=True)


def test_the_numbers_of_mnist_and_cifar_are_the_published_ones() -> None:
    found = {name: (each.archive, f"{each.archive_crc:08x}") for name, each in expected_arrays.PUBLISHED.items()}
    assert found["cifar10"] == ("cifar-10-binary.tar.gz", "f709d4ba")
    assert found["cifar100"] == ("cifar-100-binary.tar.gz", "b2274685")
    with pytest.raises(tl.UsageError, match="a source of mnist can be compared with mnist only, not with cifar10"):
        expected_arrays.check_arrays("mnist", "cifar10", None, {})  # type: ignore[arg-type]


def test_val_set_prep_is_a_field_of_array_files_too(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, data in cifar_files((1, 1)).items():
        (tmp_path / "in" / name).write_bytes(data)
    for flag in (False, True):
        tl.pack_arrays("cifar10", tmp_path / "in", tmp_path / str(flag), val_set_prep=flag)
    plain, flagged = ((tmp_path / str(flag) / "cifar10_test.dts").read_bytes() for flag in (False, True))
    assert (flagged[24:28], flagged[:24] + bytes(4) + flagged[28:]) == (b"\1\0\0\0", plain)
