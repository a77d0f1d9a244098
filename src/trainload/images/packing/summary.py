"""What a pack did, as values, and as the report file beside the set: one line for every picture that was special."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.images.packing.kinds import FATES, Kind, names_of
from trainload.images.packing.sources import PictureTable

REPORT_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SetSummary:
    """One packed set.

    paths: its files. kinds: pictures of each kind that was met, by its name in the report. refused: pictures left out.
    unused_share: of the blocks' room for pictures.
    genuine_readable: False where a block has more pictures than the genuine loader takes. ignored: entries of the
    source that are no pictures of a class; left_out: {reason: {"count", "examples"}} of these. empty_classes: classes
    without a picture.
    """

    paths: tuple[str, ...]
    report_path: str
    level: int
    pictures: int
    refused: int
    classes: int
    blocks: int
    source_bytes: int
    total_bytes: int
    unused_share: float
    max_pictures_per_block: int
    block_header_size: int
    kinds: dict[str, int]
    ignored: int
    left_out: dict[str, dict[str, Any]]
    empty_classes: tuple[str, ...]
    paths_stored: bool
    genuine_readable: bool
    seconds: float

    def facts(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PackSummary:
    """What one call packed: one set, or one each for train and val. compared: what was found as published."""

    sets: tuple[SetSummary, ...]
    compared: tuple[str, ...] = ()

    @property
    def pictures(self) -> int:
        return sum(each.pictures for each in self.sets)

    @property
    def refused(self) -> int:
        return sum(each.refused for each in self.sets)

    def facts(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {"sets": [each.facts() for each in self.sets], "compared": list(self.compared)}


def count_kinds(kinds: NDArray[np.uint16]) -> dict[str, int]:
    """Pictures of each kind that occurs, by name; a picture counts for each of its kinds."""
    counts = {FATES[kind][0]: int(np.count_nonzero(kinds & kind)) for kind in Kind}
    return {name: count for name, count in counts.items() if count}


def report_parts(
    summary: SetSummary, table: PictureTable, kinds: NDArray[np.uint16], refusals: dict[int, str]
) -> Iterator[bytes]:
    """The report: JSON with the summary, the fate of each kind, and a line per special picture, in list order."""
    column = 1 if summary.level == 0 else 2
    fates = {names[0]: names[column] for names in FATES.values() if names[0] in summary.kinds}
    stable = {name: value for name, value in summary.facts().items() if name != "seconds"}
    return _chunks(_report_lines({"summary": stable, "fates": fates}, table, kinds, refusals))


def _report_lines(
    head: dict[str, Any], table: PictureTable, kinds: NDArray[np.uint16], refusals: dict[int, str]
) -> Iterator[bytes]:
    yield json.dumps(head)[:-1].encode() + b', "pictures": ['
    separator = b"\n"
    for n in np.flatnonzero(kinds).tolist():
        line: dict[str, Any] = {"picture": n, "source": table.name(n), "kinds": names_of(int(kinds[n]))}
        if n in refusals:
            line["refused"] = refusals[n]
        yield separator + json.dumps(line).encode()
        separator = b",\n"
    yield b"\n]}\n"


def _chunks(lines: Iterator[bytes]) -> Iterator[bytes]:
    part = bytearray()
    for line in lines:
        part += line
        if len(part) >= REPORT_CHUNK_BYTES:
            yield bytes(part)
            part.clear()
    yield bytes(part)
