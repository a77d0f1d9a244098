"""What a loader checks of a set before it reads it, and what it says of a set that nothing was checked of."""

from __future__ import annotations

import warnings

from trainload.errors import UsageError
from trainload.images.checking.whole_file import check_whole_files
from trainload.images.loading.options import Verify
from trainload.images.reading.arrays import ArrayReader
from trainload.images.reading.class_folders import FolderReader
from trainload.images.reading.dts import DtsReader
from trainload.images.reading.open import ImageReader

_said: set[str] = set()  # files that this process has warned of


def check_before_reading(reader: ImageReader, verify: Verify) -> None:
    """Compare what is in memory, and whole files where `verify` asks for it; warn once of a set that goes unchecked."""
    if verify == "file":
        if isinstance(reader, FolderReader):
            raise UsageError(f"a folder of pictures carries no checksums, so verify='file' has none: {reader.path}")
        reader.verified_files = check_whole_files(reader.paths, known=reader.verified_files)
    if verify == "blocks" and isinstance(reader, ArrayReader):  # all of it is in memory anyway
        reader.check_crc()
    unchecked = isinstance(reader, DtsReader) and reader.block_crcs is None and not reader.verified_files
    if verify == "blocks" and unchecked and str(reader.path) not in _said:
        _said.add(str(reader.path))
        warnings.warn(
            "the set carries no checksums of its blocks, so it is read unchecked; verify='file' compares the checksum "
            f"of the whole file once: {reader.path}",
            RuntimeWarning,
            stacklevel=4,
        )
