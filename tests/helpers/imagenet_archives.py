"""Small archives of the layout of ImageNet's: a training tar of class tars, a flat validation tar, lists of labels."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from picture_folders import encoded, picture
from trainload.images.packing.ilsvrc2012 import wordnet_ids

TRAIN_TAR, VAL_TAR = "ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar"
CLASSES = ("n01440764", "n01751748", "n02105855", "n04263257")  # sorted; by ILSVRC2012_ID the order is another
VAL_CLASSES = (1, 3, 1, 0, 3, 2)  # of val_00000001 and so on


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def tar_of_class_tars(root: Path, path: Path) -> Path:
    """The class folders below `root` as a tar of tars, classes and files in an order of their own."""
    with tarfile.open(path, "w") as archive:
        for folder in sorted(root.iterdir(), reverse=True):
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as class_tar:
                for file in sorted(folder.iterdir(), reverse=True):
                    add(class_tar, file.name, file.read_bytes())
            add(archive, f"{folder.name}.tar", inner.getvalue())
    return path


def val_name(number: int) -> str:
    return f"ILSVRC2012_val_{number:08}.JPEG"


def class_folders(root: Path) -> Path:
    """train/ and val/ as class folders, the way the archives are unpacked by everybody."""
    for label, name in enumerate(CLASSES):
        (root / "train" / name).mkdir(parents=True)
        for n in range(3):
            (root / "train" / name / f"{name}_{100 - n}.JPEG").write_bytes(encoded(picture(10 * label + n)))
    for number, label in enumerate(VAL_CLASSES, 1):
        folder = root / "val" / CLASSES[label]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / val_name(number)).write_bytes(encoded(picture(100 + number)))
    return root


def flat_folder(root: Path, folder: Path) -> Path:
    """The pictures of class folders in one folder."""
    folder.mkdir(parents=True)
    for file in root.glob("*/*"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def flat_tar(root: Path, path: Path) -> Path:
    """The pictures of class folders in one tar, not sorted."""
    with tarfile.open(path, "w") as archive:
        for file in sorted(root.glob("*/*"), reverse=True):
            add(archive, file.name, file.read_bytes())
    return path


def archives(unpacked: Path, root: Path) -> Path:
    """A folder with both archives."""
    root.mkdir(parents=True, exist_ok=True)
    tar_of_class_tars(unpacked / "train", root / TRAIN_TAR)
    flat_tar(unpacked / "val", root / VAL_TAR)
    return root


def label_lists() -> dict[str, str]:
    """Every form in which the labels of VAL_CLASSES are about, by a file name that they may have."""
    wnids = [CLASSES[label] for label in VAL_CLASSES]
    names = [val_name(number) for number in range(1, len(wnids) + 1)]
    boxes = [f"{wnid} 1 2 30 40 {wnid} 5 6 7 8" for wnid in wnids]
    return {
        "ILSVRC2012_validation_ground_truth.txt": lines(str(1 + wordnet_ids().index(wnid)) for wnid in wnids),
        "imagenet_2012_validation_synset_labels.txt": lines(wnids),
        "LOC_val_solution.csv": "ImageId,PredictionString\n"
        + lines(f"{name.removesuffix('.JPEG')},{box}" for name, box in [*zip(names, boxes)][::-1]),
        "val.txt": lines(f"{name} {label}" for name, label in zip(names, VAL_CLASSES)),
        "map.txt": lines(f"some/val/{name} {wnid}" for name, wnid in zip(names, wnids)),
        "tabs.tsv": "label\tconfidence\tfile\r\n" + "".join(f"{w}\t1.0\t{n}\r\n" for n, w in zip(names, wnids)),
        "plain.csv": lines(f'"{name}","{wnid}"' for name, wnid in zip(names, wnids)),
    }


def lines(texts: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in texts)
