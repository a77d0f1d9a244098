"""ImageNet's archives are packed as they are: the files are those of the unpacked class folders, to the byte."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import PIL
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import trainload as tl
from imagenet_archives import (
    CLASSES,
    TRAIN_TAR,
    VAL_CLASSES,
    VAL_TAR,
    add,
    archives,
    class_folders,
    flat_folder,
    label_lists,
    tar_of_class_tars,
    val_name,
)
from picture_folders import encoded, picture, read_packed
from trainload.images.classes import left_out as reasons
from trainload.images.packing.ilsvrc2012 import wordnet_ids
from trainload.images.packing.label_list import label_list_from_text, read_label_list
from trainload.images.packing.sources import open_source


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return class_folders(tmp_path_factory.mktemp("unpacked"))


@pytest.fixture(scope="module")
def root(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both archives and a list of labels for each of its forms."""
    folder = archives(unpacked, tmp_path_factory.mktemp("archives"))
    for name, text in label_lists().items():
        (folder / name).write_text(text, newline="")
    return folder


@pytest.fixture(scope="module")
def expected(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the class folders pack to."""
    out = tmp_path_factory.mktemp("expected")
    tl.pack_images(unpacked, out, level=0, jobs=1)
    return {split: (out / f"{split}.dts").read_bytes() for split in ("train", "val")}


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_the_training_archive_packs_to_the_genuine_file_of_its_name(
    level: int, at_hand: Callable[[str], Path], tmp_path: Path
) -> None:
    values = json.loads((at_hand("shared/spec/conformance.json")).read_text())
    if level and values["pillow"] != PIL.__version__:
        pytest.skip(f"levels 1 to 3 depend on Pillow {values['pillow']}, this is {PIL.__version__}")
    source = tar_of_class_tars(at_hand("shared/data/imagenet-sample/train"), tmp_path / TRAIN_TAR)
    tl.pack_images(source, tmp_path, level=level, reference=True, min_blocks=6, names="genuine", jobs=2)
    name = f"imagenet_train_lv{level}.dts"
    found = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    assert found == values["files"][name]["sha256"]


# ---- the validation archive and its labels --------------------------------------------------------------------------


@pytest.mark.parametrize("name", label_lists())
def test_both_archives_of_a_folder_pack_to_the_files_of_the_class_folders(
    name: str, root: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    summary = tl.pack_images(root, tmp_path, level=0, labels=root / name, jobs=1)
    assert {split: (tmp_path / f"{split}.dts").read_bytes() for split in expected} == expected
    beside = sorted({*label_lists()} - {name})
    assert summary.sets[0].left_out[reasons.BESIDE] == {"count": len(beside), "examples": beside[:3]}
    assert read_packed(tmp_path / "train.dts").u32(16) == 1 and read_packed(tmp_path / "val.dts").u32(16) == 0


@pytest.mark.parametrize("name", [*label_lists()])
@pytest.mark.parametrize("form", ["tar", "folder"])
def test_pictures_in_no_class_folders_pack_to_the_file_of_their_class_folders(
    form: str, name: str, unpacked: Path, root: Path, tmp_path: Path
) -> None:
    tl.pack_images(unpacked / "val", tmp_path / "expected.dts", level=0, split="val", jobs=1)
    source = root / VAL_TAR if form == "tar" else flat_folder(unpacked / "val", tmp_path / "pictures")
    split: Any = None if form == "tar" else "val"  # the archive's name says it
    tl.pack_images(source, tmp_path / "a.dts", level=0, labels=root / name, split=split, jobs=1, classes=CLASSES)
    assert (tmp_path / "a.dts").read_bytes() == (tmp_path / "expected.dts").read_bytes()


def test_the_development_kit_is_a_list_of_labels(root: Path, tmp_path: Path) -> None:
    kit = tmp_path / "ILSVRC2012_devkit_t12.tar.gz"
    name = "ILSVRC2012_validation_ground_truth.txt"
    with tarfile.open(kit, "w:gz") as archive:
        add(archive, "ILSVRC2012_devkit_t12/data/meta.mat", b"MATLAB")
        archive.add(root / name, f"ILSVRC2012_devkit_t12/data/{name}")
    assert read_label_list(kit).classes == read_label_list(root / name).classes


def test_val_may_be_flat_beside_class_folders_of_train_or_inside_one_tar(
    unpacked: Path, root: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    labels = root / "LOC_val_solution.csv"
    both = tmp_path / "folders"
    both.mkdir()
    (both / "train").symlink_to(unpacked / "train")
    flat_folder(unpacked / "val", both / "val")
    with tarfile.open(tmp_path / "both.tar", "w", dereference=True) as archive:
        archive.add(both, "top")
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    (mixed / "train").symlink_to(unpacked / "train")
    (mixed / VAL_TAR).symlink_to(root / VAL_TAR)
    (mixed / "ILSVRC2012_devkit_t12" / "data").mkdir(parents=True)
    for source in (both, tmp_path / "both.tar", mixed):
        out = tmp_path / f"out-{source.name}"
        tl.pack_images(source, out, level=0, labels=labels, jobs=1)
        assert {split: (out / f"{split}.dts").read_bytes() for split in expected} == expected


def test_a_splits_own_folder_goes_before_its_archive(unpacked: Path, root: Path, tmp_path: Path) -> None:
    for name in (TRAIN_TAR, VAL_TAR):
        (tmp_path / name).symlink_to(root / name)
    (tmp_path / "val").symlink_to(unpacked / "val")
    tables = open_source(tmp_path)
    assert (tables["train"].places is None, tables["val"].places is None) == (False, True)
    (tmp_path / "train").symlink_to(unpacked / "train")
    assert all(table.places is None for table in open_source(tmp_path).values())


def test_an_archive_that_was_left_beside_its_classes_is_no_source(unpacked: Path, root: Path, tmp_path: Path) -> None:
    for n, folder in enumerate((unpacked / "train").iterdir()):
        (tmp_path / f"class{n}").symlink_to(folder)
    (tmp_path / TRAIN_TAR).symlink_to(root / TRAIN_TAR)
    table = open_source(tmp_path)[""]
    assert (len(table), table.left_out.facts()) == (12, {reasons.NO_CLASS: {"count": 1, "examples": [TRAIN_TAR]}})


def test_one_archive_alone_has_the_split_of_its_name(root: Path, tmp_path: Path) -> None:
    tl.pack_images(root / VAL_TAR, tmp_path / "a.dts", level=0, labels=root / "map.txt", jobs=1)
    tl.pack_images(root / VAL_TAR, tmp_path / "b.dts", level=0, labels=root / "map.txt", jobs=1, split="train")
    tl.pack_images(root / TRAIN_TAR, tmp_path / "c.dts", level=0, jobs=1)
    assert [read_packed(tmp_path / f"{name}.dts").u32(16) for name in "abc"] == [0, 1, 1]


def test_a_class_that_no_label_names_keeps_its_number_by_the_training_set(root: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("".join(f"{val_name(n)} n04263257\n" for n in range(1, 7)))
    tl.pack_images(root, tmp_path, level=0, labels=tmp_path / "labels.txt", jobs=1)
    val = tl.DtsReader(tmp_path / "val.dts")
    assert val.class_names == CLASSES and set(val.labels.tolist()) == {3}


# ---- names, flags ---------------------------------------------------------------------------------------------------


def test_genuine_names_are_those_that_the_published_loader_looks_for(root: Path, tmp_path: Path) -> None:
    summary = tl.pack_images(root, tmp_path, level=3, labels=root / "map.txt", names="genuine", jobs=1)
    names = [Path(path).name for each in summary.sets for path in each.paths]
    assert names == ["imagenet_train_lv3.dts", "imagenet_val_lv3.dts"]
    tl.pack_images(
        root / VAL_TAR, tmp_path / "one", level=0, labels=root / "map.txt", names="genuine", volumes=2, jobs=1
    )
    found = sorted(path.name for path in (tmp_path / "one").glob("*.dts"))
    assert found == ["imagenet_val_lv0-0-of-2.dts", "imagenet_val_lv0-1-of-2.dts"]


def test_val_set_prep_changes_its_field_of_a_genuine_file_and_nothing_else(unpacked: Path, tmp_path: Path) -> None:
    for name, flag in (("a", False), ("b", True)):
        tl.pack_images(unpacked, tmp_path / name, level=0, reference=True, min_blocks=1, val_set_prep=flag, jobs=1)
    for split in ("train", "val"):
        plain, flagged = ((tmp_path / name / f"{split}.dts").read_bytes() for name in "ab")
        assert flagged[24:28] == b"\1\0\0\0"
        assert flagged[:24] + bytes(4) + flagged[28:] == plain


def test_train_and_val_have_their_own_number_of_blocks_to_open_with(unpacked: Path, tmp_path: Path) -> None:
    tl.pack_images(unpacked, tmp_path, level=0, reference=True, min_blocks=(3, 2), jobs=1)
    assert [len(read_packed(tmp_path / f"{split}.dts").blocks) for split in ("train", "val")] == [3, 2]


def test_a_pack_of_a_flat_archive_goes_on_where_it_was_ended(root: Path, unpacked: Path, tmp_path: Path) -> None:
    broken = flat_folder(unpacked / "val", tmp_path / "pictures")
    options: dict[str, Any] = {"level": 0, "labels": root / "map.txt", "split": "val", "volumes": 6, "jobs": 1}
    tl.pack_images(broken, tmp_path / "whole.dts", **options)
    last = read_packed(tmp_path / "whole-5-of-6.dts").samples[0]
    damaged = next(path for path in broken.iterdir() if path.read_bytes() == last)
    whole = damaged.read_bytes()
    damaged.write_bytes(b"x" * len(whole))
    with pytest.raises(tl.SampleError, match=f"/{damaged.name}"):
        tl.pack_images(broken, tmp_path / "set.dts", **options)
    assert list(tmp_path.glob("set*.tmp"))
    damaged.write_bytes(whole)
    tl.pack_images(broken, tmp_path / "set.dts", resume=True, **options)
    for n in range(6):
        parts = [(tmp_path / f"{stem}-{n}-of-6.dts").read_bytes() for stem in ("whole", "set")]
        assert parts[0] == parts[1]


# ---- wrong labels ---------------------------------------------------------------------------------------------------

NAMES = [val_name(n) for n in range(1, 7)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1\n2\n3\n", "3 labels for 6 pictures"),
        ("n01440764\n" * 7, "7 labels for 6 pictures"),
        ("1\n2\n3\n4\n5\n1001\n", "line 6 of the labels: 1001 is no number of a class, which go from 1 to 1,000"),
        ("1\n2\n3\n4\n5\n" + "9" * 5000 + "\n", "is no number of a class"),
        ("a\nb\nc\n\nd\ne\n", "line 4 of the labels is empty"),
        ("", "a list of labels has a line of text for each picture"),
        ("\0\1\2", "a list of labels has a line of text for each picture"),
        ("".join(f"{name} cat\n" for name in NAMES[:-1]), "1 of 6 pictures have no label (ILSVRC2012_val_00000006"),
        ("".join(f"{name} cat\n" for name in [*NAMES, "x.JPEG"]), "line 7 of the labels: there is no picture x.JPEG"),
        ("".join(f"{name} cat\n" for name in [*NAMES, NAMES[1]]), "lines 2 and 7 of the labels are of one picture"),
        ("".join(f"{name} a/b\n" for name in NAMES), "a class needs a name without slashes, not 'a/b'"),
        ("".join(f"{name} 3\n" for name in NAMES), "a number needs all classes in label order"),
        ("a b\nc\n", "line 2 of the labels has 1 fields, the first has 2"),
        ("image,class\n", "the list of labels has titles and nothing more"),
        ("a,b,c\nd,e,f\n", "of 3 columns titles must say which are picture and class"),
        ('a,"b\nc"d,e\n', "no CSV"),
    ],
)
def test_labels_that_are_not_those_of_the_pictures_are_refused(
    text: str, told: str, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "labels").write_text(text)
    with pytest.raises(tl.UsageError) as error:
        tl.pack_images(root / VAL_TAR, tmp_path / "a.dts", level=0, labels=tmp_path / "labels", jobs=1)
    assert told in str(error.value)
    assert not list(tmp_path.glob("a.dts*"))


def test_labels_in_order_do_not_shift_where_a_picture_is_missing(unpacked: Path, root: Path, tmp_path: Path) -> None:
    pictures = flat_folder(unpacked / "val", tmp_path / "val")
    (pictures / NAMES[2]).unlink()
    with pytest.raises(tl.UsageError, match="ILSVRC2012_val_00000003 is missing"):
        open_source(pictures, labels=read_label_list(root / "ILSVRC2012_validation_ground_truth.txt"))


def test_a_label_must_be_a_class_of_the_training_set_or_of_the_list(root: Path, tmp_path: Path) -> None:
    (tmp_path / "labels").write_text("".join(f"{name} n99999999\n" for name in NAMES))
    for listed in (None, CLASSES):
        with pytest.raises(tl.UsageError, match="line 1 of the labels: n99999999 is none of the 4 classes"):
            tl.pack_images(root, tmp_path / "out", level=0, labels=tmp_path / "labels", classes=listed, jobs=1)
    (tmp_path / "labels").write_text("".join(f"{name} 4\n" for name in NAMES))
    with pytest.raises(tl.UsageError, match="4 is no number of a class, which go from 0 to 3"):
        tl.pack_images(root, tmp_path / "out", level=0, labels=tmp_path / "labels", jobs=1)


def test_numbers_without_names_are_of_imagenets_pictures_only(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "x.jpg").write_bytes(encoded(picture(1)))
    (tmp_path / "labels").write_text("7\n")
    with pytest.raises(tl.UsageError, match="these are other pictures: give lines of picture name and class"):
        open_source(tmp_path / "p", labels=read_label_list(tmp_path / "labels"))


def test_a_name_without_its_ending_must_mean_one_picture(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    for name in ("x.jpg", "x.png"):
        (tmp_path / "p" / name).write_bytes(encoded(picture(1)))
    (tmp_path / "labels").write_text("x cat\nx.png dog\n")
    with pytest.raises(tl.UsageError, match="line 1 of the labels: two pictures differ only by their endings from x"):
        open_source(tmp_path / "p", labels=read_label_list(tmp_path / "labels"))


def test_labels_beside_class_folders_or_without_val_are_refused(unpacked: Path, root: Path, tmp_path: Path) -> None:
    labels = read_label_list(root / "map.txt")
    tar = tmp_path / "val.tar"
    with tarfile.open(tar, "w") as archive:
        archive.add(unpacked / "val", "pictures")
    for source in (unpacked, unpacked / "val", tar):
        with pytest.raises(tl.UsageError, match="a list of labels is for pictures that lie in no class folders"):
            open_source(source, labels=labels)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train").symlink_to(unpacked / "train")
    with pytest.raises(tl.UsageError, match="for the pictures of val, and there is only train"):
        open_source(tmp_path / "set", labels=labels)


def test_a_flat_source_without_labels_says_what_to_bring(root: Path) -> None:
    with pytest.raises(tl.UsageError, match="pictures in no class folders need a list of their classes: labels= or"):
        open_source(root / VAL_TAR)


def test_what_lies_beside_labelled_pictures_is_counted(unpacked: Path, root: Path, tmp_path: Path) -> None:
    pictures = flat_folder(unpacked / "val", tmp_path / "val")
    (pictures / "more").mkdir()
    (pictures / "valprep.sh").write_text("mv")
    (pictures / ".DS_Store").write_text("x")
    (pictures / "gone.JPEG").symlink_to("nothing")
    table = open_source(pictures, labels=read_label_list(root / "map.txt"))[""]
    assert {reason: each["count"] for reason, each in table.left_out.facts().items()} == {
        reasons.FOLDER: 1,
        reasons.NO_PICTURE_NAME: 1,
        reasons.HIDDEN: 1,
        reasons.DANGLING: 1,
    }


@pytest.mark.parametrize("data", [b"\x1f\x8b", b"\x1f\x8bx" * 100, b""], ids=["cut", "no gzip", "no kit"])
def test_a_damaged_kit_is_refused(data: bytes, tmp_path: Path) -> None:
    kit = tmp_path / "kit.tar.gz"
    if not data:
        with tarfile.open(kit, "w:gz") as archive:
            add(archive, "readme.txt", b"nothing")
    else:
        kit.write_bytes(data)
    with pytest.raises(tl.UsageError, match=r"kit|has no ILSVRC2012_validation_ground_truth"):
        read_label_list(kit)


@given(st.binary() | st.text(alphabet='ab1,"\t\r\n \ufeff\u0663').map(str.encode))
@example(b'"a\n1,b\n')
@example("\u0663\n".encode())  # a digit of another script
def test_any_bytes_are_a_list_of_labels_or_refused(data: bytes) -> None:
    for path in ("labels.csv", "labels"):
        try:
            found = label_list_from_text(data, path)
            assert len(found.classes_of(["a", "b"], None)) == len(found.classes) == 2
        except tl.UsageError as error:
            assert path in str(error)


def test_the_classes_of_the_development_kit_are_all_there() -> None:
    assert len(set(wordnet_ids())) == 1000
    assert wordnet_ids()[490 - 1] == "n01751748"  # the kit's first label; the picture shows a sea snake
    assert sorted(wordnet_ids())[65] == "n01751748"


def test_a_list_of_classes_may_have_words_behind_its_wordnet_ids(root: Path, tmp_path: Path) -> None:
    (tmp_path / "LOC_synset_mapping.txt").write_text("".join(f"{name} a fish, or so\n" for name in CLASSES))
    classes = str(tmp_path / "LOC_synset_mapping.txt")
    tl.pack_images(root / VAL_TAR, tmp_path / "a.dts", level=0, labels=root / "val.txt", classes=classes, jobs=1)
    ds = tl.DtsReader(tmp_path / "a.dts")
    assert {ds.source(n): label for n, label in enumerate(ds.labels.tolist())} == {
        f"{CLASSES[label]}/{name}": label for name, label in zip(NAMES, VAL_CLASSES)
    }
