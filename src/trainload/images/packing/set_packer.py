"""One table of pictures into one set of volumes: puts levels, arrangement, workers, journal and writer together."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import PIL
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.errors import SampleError, UsageError
from trainload.images.format import dts
from trainload.images.packing import arrange, block_cutting
from trainload.images.packing.journal import BlockRecord, Journal
from trainload.images.packing.levels import LevelOptions
from trainload.images.packing.packed_picture import PackedPicture
from trainload.images.packing.sources import PictureTable
from trainload.images.packing.summary import SetSummary, count_kinds, report_parts
from trainload.images.packing.workers import Workers
from trainload.images.packing.writer import SetFacts, Volume, header_region, set_uuid, shape
from trainload.storage.volume_sink import LocalVolumes, VolumeSet

Index = NDArray[np.int64]
MOST_UNREADABLE = 32  # in a row: single files may be gone, but not a source
PROGRESS_PICTURES = 64  # between two calls of `progress`
SYNC_BLOCKS = 64  # 1 GB: so much has to be packed again after a failed sync, or a kill during one


@dataclass(frozen=True, slots=True)
class PackProgress:
    """How far a set is: pictures done of all; `resumed` of them by an earlier run. unit: what is counted."""

    path: str
    done: int
    total: int
    resumed: int
    unit: str = "pictures"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackOptions:
    """The switches of `packing.images.pack_images`, which explains them."""

    level: int
    is_training: bool
    reference: bool
    min_blocks: int | None
    volumes: int
    jobs: int
    seed: int
    exif: Literal["ignore", "apply"]
    oversize: Literal["reencode", "refuse"]
    on_error: Literal["raise", "skip"]
    check: Literal["markers", "decode"]
    resume: bool
    overwrite: bool
    val_set_prep: bool


class SetPacker:
    """Packs `table` into the file `path`, or into volumes named after it. `pack` may be called once.

    Raises UsageError for a name that the set cannot have, before any work.
    """

    def __init__(
        self, table: PictureTable, path: Path, options: PackOptions, progress: Callable[[PackProgress], None] | None
    ) -> None:
        if len(table) < options.volumes:
            raise UsageError(f"{len(table)} pictures cannot fill {options.volumes} volumes: {path}")
        self.table = table
        self.path = path
        self.options = options
        self.progress = progress
        self.kinds = np.zeros(len(table), np.uint16)
        self.refusals: dict[int, str] = {}
        self._new_refusals: list[tuple[int, int, str]] = []
        self._unreadable = 0  # in a row
        self._volumes = [Volume() for _ in range(options.volumes)]
        self._place: VolumeSet = LocalVolumes(path, options.volumes)
        self._place.check(overwrite=options.overwrite or options.resume, inputs=[table.files.path])
        self._done = 0
        self._resumed = 0

    def pack(self) -> SetSummary:
        started = time.monotonic()
        volumes = self._volumes
        journal = Journal(self._place.journal_path(None), self._identity(), resume=self.options.resume)
        try:
            facts = self._write_blocks(volumes, journal)
            return self._finish(facts, volumes, journal, started)
        except BaseException:
            if not any(volume.records for volume in volumes):
                journal.remove()
                for volume_id in range(len(volumes)):
                    self._place.discard(volume_id)
            raise
        finally:
            journal.close()

    # ---- what is decided before the first block ---------------------------------------------------------------------

    def _parameters(self) -> dict[str, Any]:
        """What the file says about its making, and what two packs must share to be the same."""
        options = self.options
        return {
            "tool": f"trainload {version('trainload')}",
            "pillow": PIL.__version__,
            "level": options.level,
            "arrangement": "reference" if options.reference else "mixed",
            "seed": options.seed,
            "exif": options.exif,
            "oversize": options.oversize,
            "restart_marker_rows": int(options.level > 0 and not options.reference),
        }

    def _identity(self) -> dict[str, Any]:
        options, table = self.options, self.table
        content = hashlib.sha256("\0".join(table.class_names).encode("utf-8", "surrogateescape"))
        content.update(table.names.blob)
        content.update(table.sizes.tobytes())
        return self._parameters() | {
            "split": "train" if options.is_training else "val",
            "min_blocks": options.min_blocks,
            "volumes": options.volumes,
            "check": options.check,
            "source": content.hexdigest(),
        }

    def _level_options(self, capacity: int) -> LevelOptions:
        options = self.options
        return LevelOptions(
            level=options.level,
            capacity=capacity,
            reference=options.reference,
            exif=options.exif,
            oversize=options.oversize,
            decode=options.check == "decode",
        )

    def _facts(self, block_header_size: int) -> SetFacts:
        options, table = self.options, self.table
        return SetFacts(
            level=options.level,
            is_training=options.is_training,
            reference=options.reference,
            class_names=table.class_names,
            labels=table.labels,
            sizes=table.sizes,
            block_header_size=block_header_size,
            parameters=self._parameters(),
            val_set_prep=options.val_set_prep,
        )

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def _write_blocks(self, volumes: list[Volume], journal: Journal) -> SetFacts:
        self._take_over(volumes, journal)
        least = dts.BLOCK_HEADER_SIZE[self.options.level]
        if self.options.level == 0:
            return self._write_kept_blocks(volumes, journal, least)
        return self._write_encoded_blocks(volumes, journal, least)

    def _write_kept_blocks(self, volumes: list[Volume], journal: Journal, least: int) -> SetFacts:
        """Level 0: the sizes are known, so the blocks are planned before the first picture is read."""
        size = least
        if not self.options.reference:
            size = block_cutting.block_header_size_for(np.minimum(self.table.sizes, dts.BLOCK_SIZE), least)
        facts = self._facts(size)
        with self._workers(dts.BLOCK_SIZE - size) as workers:
            sizes, order = self._fitting(workers, dts.BLOCK_SIZE - size)
            for volume_id, plan in enumerate(self._plans(sizes, order, size)):
                volume = volumes[volume_id]
                left = plan[len(volume.records) :]
                stream = self._stream(workers, np.concatenate([np.empty(0, np.int64), *left]))
                cut = block_cutting.planned_blocks(stream, [len(block) for block in left])
                self._write_volume(facts, volume, volume_id, cut, journal)
        return facts

    def _fitting(self, workers: Workers, capacity: int) -> tuple[Index, Index]:
        """Every picture's size in a block, and the pictures that can go in: those too large are re-encoded to know."""
        sizes = self.table.sizes.copy()
        fits = sizes <= capacity
        large = np.flatnonzero(~fits)
        for picture in self._stream(workers, large):
            if not picture.is_refused:
                sizes[picture.number] = len(picture.data)
                fits[picture.number] = True
        return sizes, np.flatnonzero(fits)

    def _plans(self, sizes: Index, fitting: Index, block_header_size: int) -> list[list[Index]]:
        """The blocks of each volume, as pictures."""
        capacity = dts.BLOCK_SIZE - block_header_size
        if self.options.reference:
            plan = arrange.reference_arrangement(sizes[fitting], capacity, self.options.min_blocks)
            return [[fitting[block] for block in plan]]
        order = fitting[arrange.random_order(len(fitting), self.options.seed)]
        most = dts.block_capacity(block_header_size)
        parts = np.array_split(order, self.options.volumes)
        return [arrange.mixed_arrangement(sizes, part, capacity, most) for part in parts]

    def _write_encoded_blocks(self, volumes: list[Volume], journal: Journal, least: int) -> SetFacts:
        """Levels 1 to 3: sizes become known as samples arrive, so the stream is cut while it runs."""
        reference = self.options.reference
        orders = np.array_split(arrange.random_order(len(self.table), self.options.seed), self.options.volumes)
        with self._workers(dts.BLOCK_SIZE - (least if reference else block_cutting.MAX_BLOCK_HEADER_SIZE)) as workers:
            size, window = least, []
            stream = self._stream(workers, orders[0])
            if not reference:
                window = block_cutting.first_window(stream)
                size = block_cutting.block_header_size_for((len(picture.data) for picture in window), least)
            facts = self._facts(size)
            for volume_id, volume in enumerate(volumes):
                if volume_id > 0 or volume.records:
                    stream.close()
                    stream, window = self._stream(workers, self._left(orders[volume_id], volume)), []
                cutter = block_cutting.sequential_blocks if reference else block_cutting.mixed_blocks
                self._write_volume(facts, volume, volume_id, cutter(chain(window, stream), size), journal)
        return facts

    def _left(self, order: Index, volume: Volume) -> Index:
        """`order` without what the volume's blocks hold and without what was refused while they were made."""
        seen = np.zeros(len(self.table), bool)
        seen[volume.pictures()] = True
        seen[[picture for record in volume.records for picture, _, _ in record.refusals]] = True
        return order[~seen[order]]

    def _write_volume(
        self, facts: SetFacts, volume: Volume, volume_id: int, cut: Iterator[block_cutting.Block], journal: Journal
    ) -> None:
        buffer = bytearray(dts.BLOCK_SIZE)
        with self._place.open_volume(volume_id, shape(), left=volume.crcs or None) as sink:
            for block in cut:
                place = (facts.level, len(volume.records), facts.block_header_size)
                used_bytes = block_cutting.fill_block_bytes(block, facts.labels, place, buffer)
                record = BlockRecord(
                    volume_id,
                    isal_zlib.crc32(buffer),
                    np.array([picture.number for picture in block], np.uint32),
                    np.array([picture.kinds for picture in block], np.uint16),
                    np.array([isal_zlib.crc32(picture.data) for picture in block], np.uint32),
                    used_bytes,
                    max((picture.area for picture in block), default=0),
                    self._new_refusals,
                )
                self._new_refusals = []
                sink.write_block(len(volume.records), buffer)
                volume.records.append(record)
                journal.add(record)
                self._count(record)
                if len(volume.records) % SYNC_BLOCKS == 0:
                    journal.sync(sink)
            journal.sync(sink)

    def _workers(self, capacity: int) -> Workers:
        return Workers(self.table.files, self._level_options(capacity), min(self.options.jobs, len(self.table)))

    def _stream(self, workers: Workers, order: Index) -> Generator[PackedPicture, None, None]:
        """The samples of `order`, in order; raises SampleError at a refused picture unless they are to be skipped."""
        numbers = order.tolist()
        for number, picture in zip(numbers, workers.packed(self.table.locator(n) for n in numbers)):
            if picture.is_refused:
                self._refuse(number, picture)
            else:
                self._unreadable = 0
            self._done += 1
            if self._done % PROGRESS_PICTURES == 0:
                self._report_progress(min(self._done, len(self.table)))
            yield picture._replace(number=number)

    def _report_progress(self, done: int) -> None:
        if self.progress:
            self.progress(PackProgress(str(self.path), done, len(self.table), self._resumed))

    def _refuse(self, number: int, picture: PackedPicture) -> None:
        place: dict[str, Any] = {"sample": number, "source": self.table.name(number), "path": self.table.files.path}
        if self.options.on_error == "raise":
            raise picture.error or SampleError(picture.reason, **place)
        self._unreadable = self._unreadable + 1 if picture.error else 0
        if self._unreadable == MOST_UNREADABLE:
            reason = f"{MOST_UNREADABLE} pictures in a row cannot be read: is the source still there? The last"
            raise SampleError(f"{reason} {picture.reason}", **place) from picture.error
        self._new_refusals.append((number, picture.kinds, picture.reason))
        self._note_refusal(number, picture.kinds, picture.reason)

    def _note_refusal(self, number: int, kinds: int, reason: str) -> None:
        self.kinds[number] = kinds
        self.refusals[number] = reason

    # ---- what an earlier run left, how far this one is --------------------------------------------------------------

    def _take_over(self, volumes: list[Volume], journal: Journal) -> None:
        unsynced = {record.volume for record in journal.records[journal.synced :]}
        for volume_id, volume in enumerate(volumes):
            left = [record for record in journal.records if record.volume == volume_id]
            if left:
                crcs = [record.crc for record in left]
                with self._place.open_volume(volume_id, shape(), left=crcs) as sink:
                    if volume_id in unsynced:  # what the page cache shows may not be on the disk
                        journal.sync(sink)
                    volume.records = left[: sink.count_good(crcs)]
            self._place.check_volume(volume_id, overwrite=self.options.overwrite)
        good = [record for volume in volumes for record in volume.records]
        if len(good) != len(journal.records):
            journal.keep(good)
        for record in good:
            self._count(record)
            for refusal in record.refusals:
                self._note_refusal(*refusal)
            self._resumed += len(record.pictures) + len(record.refusals)
        self._done = self._resumed

    def _count(self, record: BlockRecord) -> None:
        self.kinds[record.pictures] = record.kinds

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _finish(self, facts: SetFacts, volumes: list[Volume], journal: Journal, started: float) -> SetSummary:
        if not any(volume.num_samples for volume in volumes):
            raise UsageError(f"every picture was refused, the first because: {next(iter(self.refusals.values()))}")
        paths_stored = True
        for volume_id, volume in enumerate(volumes):
            names = [self.table.name(n) for n in volume.pictures().tolist()]
            region, fitted = header_region(facts, volumes, volume_id, names)
            paths_stored &= fitted
            with self._place.open_volume(volume_id, shape(), left=volume.crcs) as sink:
                sink.write_header(region, len(volume.records))
                sink.sync()
        summary = self._summary(facts, volumes, paths_stored, started)
        self._place.write_report(report_parts(summary, self.table, self.kinds, self.refusals))
        for volume_id, volume in enumerate(volumes):
            with self._place.open_volume(volume_id, shape(), left=volume.crcs) as sink:
                sink.commit()
        self._place.complete(
            "" if facts.reference else str(set_uuid(facts, volumes)), [volume.crc for volume in volumes]
        )
        journal.remove()
        self._report_progress(len(self.table))
        return summary

    def _summary(self, facts: SetFacts, volumes: list[Volume], paths_stored: bool, started: float) -> SetSummary:
        records = [record for volume in volumes for record in volume.records]
        counts = [len(record.pictures) for record in records]
        packed = np.concatenate([volume.pictures() for volume in volumes])
        room = len(records) * (dts.BLOCK_SIZE - facts.block_header_size)
        return SetSummary(
            paths=tuple(self._place.names),
            report_path=self._place.report_name,
            level=facts.level,
            pictures=sum(counts),
            refused=len(self.refusals),
            classes=len(facts.class_names),
            blocks=len(records),
            source_bytes=int(facts.sizes[packed].sum()),
            total_bytes=sum(volume.total_bytes for volume in volumes),
            unused_share=1 - sum(record.used_bytes for record in records) / room,
            max_pictures_per_block=max(counts),
            block_header_size=facts.block_header_size,
            kinds=count_kinds(self.kinds),
            ignored=self.table.ignored,
            left_out=self.table.left_out.facts(),
            empty_classes=self.table.empty_classes(),
            paths_stored=paths_stored and not facts.reference,
            genuine_readable=max(counts) <= dts.GENUINE_MAX_PICS,
            seconds=time.monotonic() - started,
        )
