"""One volume of a plan: its blocks, written and synced, and what they turned out to be. `finish` adds the header."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.images.format import dts
from trainload.images.packing import block_cutting
from trainload.images.packing.journal import BlockRecord, Journal
from trainload.images.packing.packed_picture import PackedPicture
from trainload.images.packing.picture_stream import PictureStream
from trainload.images.packing.plan import PackPlan, Window, plan_workers
from trainload.images.packing.progress import Meter, PackProgress
from trainload.images.packing.volume_result import VolumeResult, load_result
from trainload.images.packing.writer import Volume, shape
from trainload.storage.volume_sink import VolumeSet, VolumeSink

SYNC_BLOCKS = 64  # 1 GB: so much has to be packed again after a failed sync, or a kill during one


def pack_volume(
    plan: PackPlan,
    volume: int,
    place: VolumeSet,
    *,
    jobs: int = 1,
    resume: bool = True,
    overwrite: bool = False,
    window: Window | None = None,
    progress: Callable[[PackProgress], None] | None = None,
) -> VolumeResult:
    """Pack one volume of a plan, on any machine that sees the source and `place`; the result is kept there too.

    resume: go on with what an attempt that was killed left; of one that ended well only its blocks are checked. Two
    attempts make the same bytes, and one at a time: the second one is refused. window: of `make_plan_and_window`, for
    volume 0, which has less to do with it.

    Raises UsageError for a number that is no volume, for other versions than the plan's, where another process packs
    the volume, and where it has its name already (unless `overwrite`); what `pack_images` raises of pictures.
    """
    if not 0 <= volume < plan.options.volumes:
        raise UsageError(f"the plan has volumes 0 to {plan.options.volumes - 1}, not {volume}")
    plan.check_versions()
    packer = _VolumePacker(plan, volume, place, jobs, window, progress)
    journal = Journal(place.journal_path(volume), plan.identity | {"volume": volume}, resume=resume)
    try:
        result = packer.earlier_result(journal) if resume else None
        place.check_volume(volume, overwrite=overwrite)
        if result is None:
            result = packer.pack(journal)
        journal.remove()
        return result
    except BaseException:
        if not packer.volume.records:
            journal.remove()
            place.discard(volume)
        raise
    finally:
        journal.close()


class _VolumePacker:
    """One volume on its way from what an earlier attempt left to a result that is kept."""

    def __init__(
        self,
        plan: PackPlan,
        number: int,
        place: VolumeSet,
        jobs: int,
        window: Window | None,
        progress: Callable[[PackProgress], None] | None,
    ) -> None:
        self.volume = Volume()
        self._window = window
        self._plan = plan
        self._number = number
        self._place = place
        self._jobs = jobs
        self._progress = progress

    def earlier_result(self, journal: Journal) -> VolumeResult | None:
        """Take over the blocks of an earlier attempt; its result, if it has one and all of its blocks are in place."""
        result = load_result(self._plan, self._number, self._place)
        if result:
            journal.keep(list(result.records))
        take_over(self._place, self._number, self.volume, journal)
        return result if result and len(self.volume.records) == len(result.records) else None

    def pack(self, journal: Journal) -> VolumeResult:
        """Write the blocks that are missing."""
        plan, place, done = self._plan, self._place, self.volume.records
        if len(done) < len(journal.records):
            journal.keep(done)
        meter = Meter(place.names[self._number], len(plan.pictures(self._number)), self._progress)
        meter.resume(sum(record.source_pictures for record in done))
        with plan_workers(plan.table, plan.options, self._jobs) as workers:
            stream = PictureStream(plan.table, workers, plan.options.on_error, meter.tick)
            result = write_blocks(plan, self._number, self.volume, stream, self._head(stream), place, journal)
        place.save_result(self._number, result.to_bytes(plan))
        meter.finish()
        return result

    def _head(self, stream: PictureStream) -> Iterator[PackedPicture] | None:
        """All samples of the volume where some are made already."""
        window, self._window = self._window, None
        if self._number or self.volume.records or not window or not window.pictures:
            return None
        stream.note(window.refusals)
        rest = self._plan.pictures(self._number)[len(window.pictures) :]
        return chain(window.pictures, stream.packed(rest))


def take_over(place: VolumeSet, volume_id: int, volume: Volume, journal: Journal) -> None:
    """Fill `volume` with the blocks of the journal that are in place, up to the first that is not what it should be."""
    left = [record for record in journal.records if record.volume == volume_id]
    if not left:
        return
    crcs = [record.crc for record in left]
    with place.open_volume(volume_id, shape(), left=crcs) as sink:
        if journal.unsynced(volume_id):  # what the page cache shows may not be on the disk
            journal.sync(sink)
        volume.records = left[: sink.count_good(crcs)]


def write_blocks(
    plan: PackPlan,
    volume_id: int,
    volume: Volume,
    stream: PictureStream,
    head: Iterator[PackedPicture] | None,
    place: VolumeSet,
    journal: Journal,
) -> VolumeResult:
    """Write the blocks that `volume` has not yet, and sync them. head: all its samples, some of them made already."""
    writer = _BlockWriter(plan, volume_id, volume, stream, journal)
    with place.open_volume(volume_id, shape(), left=volume.crcs or None) as sink:
        for block in _cut(plan, volume_id, volume, stream, head):
            writer.write(block, sink)
        journal.sync(sink)
        state = dict(sink.state)
    return VolumeResult(volume_id, tuple(volume.records), tuple(stream.take_refusals()), state)


def _cut(
    plan: PackPlan, volume_id: int, volume: Volume, stream: PictureStream, head: Iterator[PackedPicture] | None
) -> Iterator[block_cutting.Block]:
    """The blocks that follow those of `volume`."""
    if plan.options.level == 0:
        left = plan.blocks(volume_id)[len(volume.records) :]
        pictures = np.concatenate([np.empty(0, np.int64), *left])
        return block_cutting.planned_blocks(stream.packed(pictures), [len(block) for block in left])
    samples = head or stream.packed(_left(plan, volume_id, volume))
    cutter = block_cutting.sequential_blocks if plan.options.reference else block_cutting.mixed_blocks
    return cutter(samples, plan.block_header_size)


def _left(plan: PackPlan, volume_id: int, volume: Volume) -> NDArray[np.int64]:
    """The volume's pictures without what its blocks hold and without what was refused while they were made."""
    seen = np.zeros(len(plan.table), bool)
    seen[volume.pictures()] = True
    seen[[picture for record in volume.records for picture, _, _ in record.refusals]] = True
    order = plan.pictures(volume_id)
    return order[~seen[order]]


class _BlockWriter:
    """Turns blocks into bytes, records and journal lines."""

    def __init__(self, plan: PackPlan, volume_id: int, volume: Volume, stream: PictureStream, journal: Journal) -> None:
        self._labels = plan.table.labels
        self._kind = (plan.options.level, plan.block_header_size)
        self._volume_id = volume_id
        self._volume = volume
        self._stream = stream
        self._journal = journal
        self._buffer = bytearray(dts.BLOCK_SIZE)

    def write(self, block: block_cutting.Block, sink: VolumeSink) -> None:
        records = self._volume.records
        level, header_size = self._kind
        used_bytes = block_cutting.fill_block_bytes(
            block, self._labels, (level, len(records), header_size), self._buffer
        )
        record = BlockRecord(
            self._volume_id,
            isal_zlib.crc32(self._buffer),
            np.array([picture.number for picture in block], np.uint32),
            np.array([picture.kinds for picture in block], np.uint16),
            np.array([len(picture.data) for picture in block], np.uint32),
            np.array([isal_zlib.crc32(picture.data) for picture in block], np.uint32),
            used_bytes,
            max((picture.area for picture in block), default=0),
            self._stream.take_refusals(),
        )
        sink.write_block(len(records), self._buffer)
        records.append(record)
        self._journal.add(record)
        if len(records) % SYNC_BLOCKS == 0:
            self._journal.sync(sink)
