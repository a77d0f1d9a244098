"""`trainload verify` for any container: finds the kind by content and calls its check."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from trainload.errors import FormatError, UsageError
from trainload.formats.dts import CIFAR10, CIFAR100, MNIST
from trainload.reading.findings import Finding, Report
from trainload.reading.open import AnyPath, find_files, read_kind
from trainload.reading.verify_arrays import verify_array
from trainload.reading.verify_blocks import Decoder
from trainload.reading.verify_dts import Progress, verify_volumes


def verify(
    path: AnyPath | Sequence[AnyPath],
    *,
    decode: Decoder | None = None,
    decode_all: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Check a file, all volumes of a set, or the parts of a recording, to the last bit that a checksum or rule covers.

    decode: gives the pixels of a picture or raises; it names the damaged pictures of damaged blocks, and with
    `decode_all` it is called for every picture. jobs: processes. progress: called with (blocks done, blocks in all),
    for a recording bytes.
    Raises UsageError for a folder of pictures, OSError where the system cannot read; damage is in the Report.
    """
    paths = find_files(path)
    if len(paths) == 1:
        paths = sorted(map(str, Path(paths[0]).glob("*.hfr"))) or paths  # a folder of parts
    if Path(paths[0]).is_dir():
        raise UsageError(f"a folder of pictures carries no checksums to verify: {paths[0]}")
    try:
        kinds = {read_kind(name) for name in paths}
    except FormatError as error:
        return Report(os.pathsep.join(paths), findings=[Finding.from_error(error)])
    if kinds == {"HFRM"}:
        from trainload.reading.verify_hyperframe import verify_parts

        return verify_parts(paths, progress=progress)
    if len(paths) == 1 and kinds <= {MNIST, CIFAR10, CIFAR100}:
        return verify_array(paths[0])
    return verify_volumes(paths, decode=decode, decode_all=decode_all, jobs=jobs, progress=progress)
