"""The end of a set whose volumes are packed: what depends on all of them, written; then every volume gets its name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.images.format import dts
from trainload.images.packing.plan import PackPlan
from trainload.images.packing.summary import SetSummary, count_kinds, report_parts
from trainload.images.packing.volume_result import VolumeResult, load_result
from trainload.images.packing.writer import Volume, header_region, set_uuid, shape
from trainload.storage.volume_sink import VolumeSet

MAX_NAMED = 5  # of the volumes that are missing


def kept_results(plan: PackPlan, place: VolumeSet) -> list[VolumeResult]:
    """The results of all volumes. Raises UsageError where some are not packed yet, FormatError for what is none.

    A set that is finished has none any more.
    """
    found = [load_result(plan, volume, place) for volume in range(plan.options.volumes)]
    missing = [volume for volume, result in enumerate(found) if result is None]
    if missing:
        named = ", ".join(map(str, missing[:MAX_NAMED])) + (", ..." if len(missing) > MAX_NAMED else "")
        raise UsageError(
            f"{len(missing)} of {len(found)} volumes are not packed yet, or were finished before ({named}): "
            f"{place.set_name}"
        )
    return [result for result in found if result]


def finish(
    plan: PackPlan,
    results: Sequence[VolumeResult],
    place: VolumeSet,
    *,
    overwrite: bool = False,
    seconds: float = 0.0,
) -> SetSummary:
    """Write the header of each volume, then the report, then let all volumes appear; what was packed.

    results: of `pack_volume`, for each volume in order. After a kill it may be done again: volumes that have their
    names already and are right stay as they are. seconds: what the pack took, for the summary.

    Raises UsageError where every picture of a volume was refused, where blocks are gone, and where something else has
    the name of a volume (unless `overwrite`).
    """
    plan.check_versions()
    volumes = [Volume(list(result.records)) for result in results]
    kinds, refusals = _fates(plan, results)
    _require_pictures(volumes, refusals)
    facts = plan.facts
    states, paths_stored = {}, True
    for volume_id, volume in enumerate(volumes):
        names = [plan.table.name(n) for n in volume.pictures().tolist()]
        region, fitted = header_region(facts, volumes, volume_id, names)
        paths_stored &= fitted
        if place.is_finished(volume_id, region, volume.total_bytes):
            continue
        place.check_volume(volume_id, overwrite=overwrite)
        with place.open_volume(volume_id, shape(), left=volume.crcs, state=results[volume_id].state) as sink:
            sink.write_header(region, len(volume.records))
            sink.sync()
            states[volume_id] = dict(sink.state)
    summary = _summary(plan, volumes, place, kinds, len(refusals), paths_stored, seconds)
    place.write_report(report_parts(summary, plan.table, kinds, refusals))
    for volume_id, state in states.items():
        with place.open_volume(volume_id, shape(), left=volumes[volume_id].crcs, state=state) as sink:
            sink.commit()
    place.complete("" if facts.reference else str(set_uuid(facts, volumes)), [volume.crc for volume in volumes])
    return summary


def _fates(plan: PackPlan, results: Sequence[VolumeResult]) -> tuple[NDArray[np.uint16], dict[int, str]]:
    """The kinds of every picture of the source, and {picture: reason} of those that were refused."""
    kinds = np.zeros(len(plan.table), np.uint16)
    refusals = {}
    refused = list(plan.refusals)
    for result in results:
        for record in result.records:
            kinds[record.pictures] = record.kinds
            refused += record.refusals
        refused += result.refusals
    for number, kind, reason in refused:
        kinds[number] = kind
        refusals[number] = reason
    return kinds, refusals


def _require_pictures(volumes: Sequence[Volume], refusals: dict[int, str]) -> None:
    if not any(volume.num_samples for volume in volumes):
        raise UsageError(f"every picture was refused, the first because: {next(iter(refusals.values()))}")
    for number, volume in enumerate(volumes):
        if not volume.records:
            raise UsageError(f"every picture of volume {number} was refused: pack fewer volumes than {len(volumes)}")


def _summary(
    plan: PackPlan,
    volumes: Sequence[Volume],
    place: VolumeSet,
    kinds: NDArray[np.uint16],
    refused: int,
    paths_stored: bool,
    seconds: float,
) -> SetSummary:
    table = plan.table
    records = [record for volume in volumes for record in volume.records]
    counts = [len(record.pictures) for record in records]
    packed = np.concatenate([volume.pictures() for volume in volumes])
    room = len(records) * (dts.BLOCK_SIZE - plan.block_header_size)
    return SetSummary(
        paths=tuple(place.names),
        report_path=place.report_name,
        level=plan.options.level,
        pictures=sum(counts),
        refused=refused,
        classes=len(table.class_names),
        blocks=len(records),
        source_bytes=int(table.sizes[packed].sum()),
        total_bytes=sum(volume.total_bytes for volume in volumes),
        unused_share=1 - sum(record.used_bytes for record in records) / room,
        max_pictures_per_block=max(counts),
        block_header_size=plan.block_header_size,
        kinds=count_kinds(kinds),
        ignored=table.ignored,
        left_out=table.left_out.facts(),
        empty_classes=table.empty_classes(),
        paths_stored=paths_stored and not plan.options.reference,
        genuine_readable=max(counts) <= dts.GENUINE_MAX_PICS,
        seconds=seconds,
    )
