"""`trainload verify` for any containers: finds the kind of each by content and calls its check.

Which files belong together is for their headers to say: volumes of one set are one, everything else stands for itself.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from trainload.errors import FormatError, UsageError
from trainload.formats.findings import Finding, Report
from trainload.formats.progress import Progress
from trainload.images.checking.arrays import verify_array
from trainload.images.checking.block_checker import Decoder
from trainload.images.checking.picture_set import verify_volumes
from trainload.images.files.extension import Extension
from trainload.images.files.volumes import read_header
from trainload.images.format.dts import CIFAR10, CIFAR100, MNIST, DtsHeader
from trainload.storage.containers import AnyPath, find_files, read_kind
from trainload.storage.location import is_url, open_source


def verify(
    path: AnyPath | Sequence[AnyPath],
    *,
    decode: Decoder | None = None,
    decode_all: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Check files, sets and recordings to the last bit that a checksum or rule covers; several ones at once too.

    Of several the Report has their findings and counts together, and each one's own Report in `sets`.
    decode: gives the pixels of a picture or raises; it names the damaged pictures of damaged blocks, and with
    `decode_all` it is called for every picture. jobs: processes. progress: called with (blocks done, blocks in all),
    for a recording bytes, of each set.
    Raises UsageError for a folder of pictures, OSError where the system cannot read; damage is in the Report.
    """
    reports = []
    for paths in find_sets(find_files(path)):
        reports.append(_verify_one(paths, decode, decode_all, jobs, progress))
    return reports[0] if len(reports) == 1 else Report.of_sets(reports)


def _verify_one(
    paths: list[str], decode: Decoder | None, decode_all: bool, jobs: int, progress: Progress | None
) -> Report:
    try:
        kinds = {read_kind(name) for name in paths}
    except FormatError as error:
        return Report(os.pathsep.join(paths), findings=[Finding.from_error(error)])
    if kinds == {"HFRM"}:
        from trainload.recordings.checking.hyperframe import verify_parts

        return verify_parts(paths, progress=progress)
    if len(paths) == 1 and kinds <= {MNIST, CIFAR10, CIFAR100}:
        return verify_array(paths[0])
    return verify_volumes(paths, decode=decode, decode_all=decode_all, jobs=jobs, progress=progress)


def find_sets(paths: Sequence[str]) -> list[list[str]]:
    """The files of each set, in the order given: volumes together, a folder's parts together, all others alone.

    Raises UsageError for a folder of pictures.
    """
    sets: list[list[str]] = []
    volumes: list[tuple[str, DtsHeader, str]] = []  # path, header, UUID
    for path in paths:
        if not is_url(path) and Path(path).is_dir():
            parts = sorted(map(str, Path(path).glob("*.hfr")))
            if not parts:
                raise UsageError(f"a folder of pictures carries no checksums to verify: {path}")
            sets.append(parts)
        elif volume := _volume_of_several(path):
            volumes.append((path, *volume))
        else:
            sets.append([path])
    return sets + _volume_sets(volumes)


def _volume_of_several(path: str) -> tuple[DtsHeader, str] | None:
    """Header and UUID of a volume; None for a set in one file, a recording, and what its check will find damaged."""
    with open_source(path) as source:
        try:
            header = read_header(source)
            if header.num_volumes == 1:
                return None
            return header, Extension.read(source, header).uuid()
        except FormatError:
            return None


def _volume_sets(volumes: list[tuple[str, DtsHeader, str]]) -> list[list[str]]:
    """Volumes that belong together: all, where their numbers make up one set; else those of one UUID, and of one folder
    where a set is there twice."""
    ids = sorted(header.volume_id for _, header, _ in volumes)
    if ids == list(range(len(volumes))) and all(header.num_volumes == len(ids) for _, header, _ in volumes):
        return [[path for path, _, _ in volumes]] if volumes else []
    by_set: dict[tuple[object, ...], list[tuple[str, int]]] = {}
    for path, header, uuid in volumes:
        same = (
            (uuid,) if uuid else (header.dataset_type, header.compress_level, header.is_training, header.total_blocks)
        )
        by_set.setdefault((header.num_volumes, *same), []).append((path, header.volume_id))
    sets: list[list[str]] = []
    for found in by_set.values():
        copied = len({volume_id for _, volume_id in found}) < len(found)
        by_folder: dict[Path | None, list[str]] = {}
        for path, _ in found:
            by_folder.setdefault(Path(path).parent if copied else None, []).append(path)
        sets += by_folder.values()
    return sets
