"""What one volume of a plan turned out to be: lines of JSON, the first about the volume, then one for each block.

It comes from another process, maybe of another machine, by way of a file: it is checked against the plan as it is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from isal import isal_zlib

from trainload.errors import FormatError, UsageError
from trainload.images.format import dts, rules
from trainload.images.packing.journal import BlockRecord, Refusal
from trainload.images.packing.plan import PackPlan
from trainload.storage.volume_sink import VolumeSet


@dataclass(frozen=True, slots=True)
class VolumeResult:
    """One volume, whose blocks are written and synced. records: of its blocks, in file order.

    refusals: pictures that were refused after the last block. state: of the volume's sink, JSON values.
    """

    volume: int
    records: tuple[BlockRecord, ...]
    refusals: tuple[Refusal, ...]
    state: Mapping[str, Any]

    def to_bytes(self, plan: PackPlan) -> bytes:
        head = {
            "plan": plan.digest,
            "volume": self.volume,
            "blocks": len(self.records),
            "refusals": self.refusals,
            "state": dict(self.state),
        }
        body = b"".join(record.to_line() for record in self.records)
        return json.dumps(head | {"crc": isal_zlib.crc32(body)}).encode() + b"\n" + body

    @staticmethod
    def from_bytes(data: bytes, plan: PackPlan, volume: int, name: str) -> VolumeResult:
        """Raises UsageError for the result of another plan, FormatError for what is no result of this volume."""
        first, _, body = data.partition(b"\n")
        try:
            head = dict(json.loads(first))
            if head["plan"] != plan.digest:
                raise UsageError(
                    "the volume was packed by another plan: pack it again with --anew, or finish that plan: " + name
                )
            records = tuple(map(BlockRecord.from_line, body.splitlines()))
            refusals = tuple((int(number), int(kinds), str(reason)) for number, kinds, reason in head["refusals"])
            result = VolumeResult(int(head["volume"]), records, refusals, dict(head["state"]))
            whole = len(records) == head["blocks"] and isal_zlib.crc32(body) == head["crc"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _broken("lines", f"{type(error).__name__}: {error}", "lines of JSON", name) from error
        if not whole:
            raise _broken("blocks", f"{len(records):,} blocks", f"{head['blocks']} and their CRC-32", name)
        result._check(plan, volume, name)
        return result

    def _check(self, plan: PackPlan, volume: int, name: str) -> None:
        """Every picture of the volume is in one block, or refused, once."""
        if self.volume != volume or any(record.volume != volume for record in self.records):
            raise _broken("volume", self.volume, volume, name)
        refused = [number for record in self.records for number, _, _ in record.refusals]
        refused += [number for number, _, _ in self.refusals]
        parts = [record.pictures.astype(np.int64) for record in self.records]
        found = np.sort(np.concatenate([np.array(refused, np.int64), *parts]))
        expected = np.sort(plan.pictures(volume))
        if not np.array_equal(found, expected):
            raise _broken("pictures", f"{len(found):,} pictures", f"the {len(expected):,} of the volume", name)
        most = dts.block_capacity(plan.block_header_size)
        for block, record in enumerate(self.records):
            counts = {len(each) for each in (record.pictures, record.kinds, record.sizes, record.picture_crcs)}
            sums = (record.crc, *record.picture_crcs.tolist())
            if len(counts) != 1 or max(counts) > most or not all(0 <= crc < 1 << 32 for crc in sums):
                raise _broken(f"block {block}", f"{counts} pictures", f"at most {most:,}, with a CRC-32 each", name)


def load_result(plan: PackPlan, volume: int, place: VolumeSet) -> VolumeResult | None:
    """What `place` keeps of a volume that was packed; None where it is not yet."""
    data = place.load_result(volume)
    return None if data is None else VolumeResult.from_bytes(data, plan, volume, f"{place.names[volume]}.result")


def _broken(field: str, found: object, expected: object, name: str) -> FormatError:
    return rules.PACK_RESULT.broken(field=field, offset=None, found=found, expected=expected, path=name)
