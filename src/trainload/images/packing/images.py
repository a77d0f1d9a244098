"""`pack_images`: a source of pictures in, DTS files out. Checks what was asked for; SetPacker does it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

from trainload.errors import UsageError
from trainload.formats.limits import MAX_VOLUMES
from trainload.images.classes.given import GivenClasses, class_list_of
from trainload.images.packing import arrange
from trainload.images.packing.expected import ReadProgress, compare, published_set
from trainload.images.packing.label_list import read_label_list
from trainload.images.packing.official_archives import split_of_archive
from trainload.images.packing.plan import PackOptions
from trainload.images.packing.progress import PackProgress
from trainload.images.packing.ray_packer import RayPacker
from trainload.images.packing.set_packer import SetPacker
from trainload.images.packing.sources import PictureTable, open_source
from trainload.images.packing.summary import PackSummary
from trainload.machine.cpus import usable_cpus
from trainload.storage.location import Url, access_of, inside, is_url
from trainload.storage.volume_sink import volumes_at

Source = str | os.PathLike[str]


def pack_images(
    src: Source,
    out: str | os.PathLike[str],
    *,
    level: int = 3,
    split: Literal["train", "val"] | None = None,
    reference: bool = False,
    min_blocks: int | tuple[int, int] | None = None,
    volumes: int = 1,
    jobs: int | None = None,
    seed: int = arrange.REFERENCE_SEED,
    exif: Literal["ignore", "apply"] = "ignore",
    oversize: Literal["reencode", "refuse"] = "reencode",
    on_error: Literal["raise", "skip"] = "raise",
    check: Literal["markers", "decode"] = "markers",
    resume: bool = False,
    overwrite: bool = False,
    classes: GivenClasses | None = None,
    classes_as_is: bool = False,
    labels: str | os.PathLike[str] | None = None,
    expect: Literal["imagenet"] | None = None,
    names: Literal["plain", "genuine"] = "plain",
    val_set_prep: bool = False,
    on: Literal["ray"] | None = None,
    ray_address: str | None = None,
    storage: Mapping[str, str] | None = None,
    progress: Callable[[PackProgress], None] | None = None,
) -> PackSummary:
    """Pack class folders (or a tar of them) into DTS; what was packed, with counts of everything unusual.

    src: class folders, a folder with train/ and val/ (then `out` is a folder and gets train.dts and val.dts), a tar of
    either, the URL of either folder in a bucket (s3://, gs://, az://), one of ImageNet's archives, or a folder that has
    these in the place of train/ and val/. Nothing is unpacked. Either may be in a bucket
    (docs/cluster.md). storage: how it is spoken to, as of `trainload.open`.
    level: 0 keeps the source bytes, 1 to 3 shrink (docs/spec/dts.md).
    split: what the header says of a source without train/ and val/; None is "train", or what ImageNet's archive is.
    reference: the genuine exporter's bytes, no restart markers, no extension. min_blocks: of the reference arrangement
    at level 0 (others ignore it, as the genuine exporter does), (train, val) where they differ; None tries several.
    volumes: files per set, `<out stem>-0-of-N.dts`. jobs: processes, None for one per core; the bytes do not
    depend on it.
    exif: whether levels 1 to 3 turn pictures upright. oversize, on_error: what to do with a picture larger than a block
    and with one that cannot be used, or whose file cannot be read; "skip" leaves it out, counted and named.
    check: "decode" makes level 0 decode every picture to find hidden damage.
    resume: go on with what a killed run left in `<out>.tmp`. overwrite: replace files that have the names.
    classes: all class names in label order: a list, a set that has them, or the path of a set, of class folders or of a
    text file with one name per line; None takes the folders' sorted names. classes_as_is: folders with the names of
    splits (train, val, test, ...) are classes.
    labels: a file with the class of each picture where no class folders say it (of train and val: of val): lines of
    picture name and class, a CSV, or classes in the order of the pictures' names; also ILSVRC2012's development kit.
    expect: "imagenet" compares classes, counts, labels and the archives' sizes and CRC-32s with those published, which
    reads the archives once more, and packs nothing where they differ.
    names: "genuine" gives the names that the published loader looks for, imagenet_{train,val}_lv<level>.dts, and makes
    `out` a folder. val_set_prep: the header's flag of that name, which says nothing about the pictures.
    on: "ray" packs each volume as a task on Ray (extra `ray`), with `jobs` processes each, None for one: on the cluster
    at ray_address, or None for this machine alone. The bytes are the same (docs/cluster.md).

    Raises UsageError (also for splits in the place of classes, for a class that is not in `classes`, and where another
    process packs to the same name), SampleError (on_error="raise": the first picture in packing order that cannot be
    used), FormatError (a damaged tar, and all that differs from what is expected), OSError.
    After an error the .tmp file stays for `resume`; the final name never holds half a file.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"it takes at least one process, not {jobs}")
    if on not in (None, "ray") or (on is None and ray_address is not None):
        raise UsageError(f"a pack runs on this machine, or on='ray' with or without an address, not on {on!r}")
    if storage is not None:
        access = access_of(storage, None, "auto")
        src = Url(os.fspath(src), access) if is_url(src) else src
        out = Url(os.fspath(out), access) if is_url(out) else out
    sets, compared = image_sets(
        src,
        out,
        level=level,
        split=split,
        reference=reference,
        min_blocks=min_blocks,
        volumes=volumes,
        seed=seed,
        exif=exif,
        oversize=oversize,
        on_error=on_error,
        check=check,
        classes=classes,
        classes_as_is=classes_as_is,
        labels=labels,
        expect=expect,
        names=names,
        val_set_prep=val_set_prep,
        progress=progress,
    )
    run: dict[str, Any] = {"resume": resume, "overwrite": overwrite, "progress": progress}
    packers: list[SetPacker | RayPacker] = []
    places = {path: volumes_at(path, volumes) for path in sets}
    for path, (table, options) in sets.items():
        place = places[path]
        if on == "ray":
            packers.append(RayPacker(table, place, options, jobs=jobs, address=ray_address, **run))
        else:
            packers.append(SetPacker(table, place, options, jobs=jobs or usable_cpus(), **run))
    for place in places.values():
        place.prepare()
    return PackSummary(tuple(packer.pack() for packer in packers), compared)


def image_sets(
    src: Source,
    out: str | os.PathLike[str],
    *,
    level: int = 3,
    split: Literal["train", "val"] | None = None,
    reference: bool = False,
    min_blocks: int | tuple[int, int] | None = None,
    volumes: int = 1,
    seed: int = arrange.REFERENCE_SEED,
    exif: Literal["ignore", "apply"] = "ignore",
    oversize: Literal["reencode", "refuse"] = "reencode",
    on_error: Literal["raise", "skip"] = "raise",
    check: Literal["markers", "decode"] = "markers",
    classes: GivenClasses | None = None,
    classes_as_is: bool = False,
    labels: str | os.PathLike[str] | None = None,
    expect: Literal["imagenet"] | None = None,
    names: Literal["plain", "genuine"] = "plain",
    val_set_prep: bool = False,
    progress: Callable[[PackProgress], None] | None = None,
) -> tuple[dict[str, tuple[PictureTable, PackOptions]], tuple[str, ...]]:
    """The sets that `pack_images` makes of these arguments, by the path of each; and what was found as published."""
    least = min_blocks if isinstance(min_blocks, tuple) else (min_blocks, min_blocks)
    _check_options(level, exif, reference, least, volumes)
    published = None if expect is None else published_set(expect)
    given = None if classes is None else class_list_of(classes)
    listed = None if labels is None else read_label_list(labels)
    tables = open_source(src, reference=reference, classes=given, as_is=classes_as_is, labels=listed)
    alone = split or split_of_archive(src) or "train"
    compared: tuple[str, ...] = ()
    if published is not None:
        by_split = {name or alone: table for name, table in tables.items()}
        compared = compare(by_split, published, whole="" not in tables, progress=_bytes_read(progress))
    sets = {}
    for name, table in tables.items():
        is_training = (name or alone) == "train"
        options = PackOptions(
            level=level,
            is_training=is_training,
            reference=reference,
            min_blocks=least[0 if is_training else 1],
            volumes=volumes,
            seed=seed,
            exif=exif,
            oversize=oversize,
            on_error=on_error,
            check=check,
            val_set_prep=val_set_prep,
        )
        path = inside(out, f"{name}.dts") if name else os.fspath(out)
        if names == "genuine":
            path = inside(out, f"imagenet_{name or alone}_lv{level}.dts")
        sets[path] = (table, options)
    return sets, compared


def _check_options(
    level: int,
    exif: str,
    reference: bool,
    min_blocks: tuple[int | None, int | None],
    volumes: int,
) -> None:
    if level not in (0, 1, 2, 3):
        raise UsageError(f"there are levels 0 to 3, not {level}")
    if level == 0 and exif == "apply":
        raise UsageError("level 0 keeps the source bytes, EXIF included: give the loader orientation='exif' instead")
    if min_blocks != (None, None) and (not reference or min(blocks or 0 for blocks in min_blocks) < 1):
        raise UsageError("a number of blocks to open with belongs to the reference arrangement, and is at least 1")
    if reference and (volumes != 1 or exif != "ignore"):
        raise UsageError("the genuine exporter writes one volume and ignores EXIF orientation")
    if not 1 <= volumes <= MAX_VOLUMES:
        raise UsageError(f"a set has 1 to {MAX_VOLUMES:,} volumes, not {volumes}")


def _bytes_read(progress: Callable[[PackProgress], None] | None) -> ReadProgress | None:
    """Tells how much of an archive was read for its CRC-32, in MB."""
    if progress is None:
        return None
    return lambda path, done, total: progress(PackProgress(f"CRC-32 of {path}", done >> 20, total >> 20, 0, "MB"))
