"""One table of pictures into one set of volumes on this machine: plan, volumes one after the other, finish."""

from __future__ import annotations

import time
from collections.abc import Callable

from trainload.images.packing.finish import finish
from trainload.images.packing.journal import Journal
from trainload.images.packing.picture_stream import PictureStream
from trainload.images.packing.plan import PackOptions, Versions, check_count, identity, plan_and_head, plan_workers
from trainload.images.packing.progress import Meter, PackProgress
from trainload.images.packing.sources import PictureTable
from trainload.images.packing.summary import SetSummary
from trainload.images.packing.volume_packer import take_over, write_blocks
from trainload.images.packing.volume_result import VolumeResult
from trainload.images.packing.writer import Volume
from trainload.storage.volume_sink import VolumeSet


class SetPacker:
    """Packs `table` into `place`. `pack` may be called once.

    One journal holds all volumes, and one set of workers makes all samples. Raises UsageError for names that the set
    cannot have, before any work.
    """

    def __init__(
        self,
        table: PictureTable,
        place: VolumeSet,
        options: PackOptions,
        *,
        jobs: int,
        resume: bool,
        overwrite: bool,
        progress: Callable[[PackProgress], None] | None,
    ) -> None:
        check_count(table, options, place.most_blocks)
        place.check(overwrite=overwrite or resume, inputs=[table.files.path])
        self._table = table
        self._place = place
        self._options = options
        self._jobs = jobs
        self._resume = resume
        self._overwrite = overwrite
        self._meter = Meter(place.set_name, len(table), progress)
        self._volumes = [Volume() for _ in range(options.volumes)]

    def pack(self) -> SetSummary:
        started = time.monotonic()
        known = identity(self._table, self._options, Versions.here())
        journal = Journal(self._place.journal_path(None), known, resume=self._resume)
        try:
            self._take_over(journal)
            summary = self._pack(journal, started)
            journal.remove()
            self._meter.finish()
            return summary
        except BaseException:
            if not any(volume.records for volume in self._volumes):
                journal.remove()
                for volume_id in range(len(self._volumes)):
                    self._place.discard(volume_id)
            raise
        finally:
            journal.close()

    def _take_over(self, journal: Journal) -> None:
        """Have the volumes begin with what an earlier run left."""
        for volume_id, volume in enumerate(self._volumes):
            take_over(self._place, volume_id, volume, journal)
            self._place.check_volume(volume_id, overwrite=self._overwrite)
        good = [record for volume in self._volumes for record in volume.records]
        if len(good) != len(journal.records):
            journal.keep(good)
        self._meter.resume(sum(record.source_pictures for record in good))

    def _pack(self, journal: Journal, started: float) -> SetSummary:
        results: list[VolumeResult] = []
        with plan_workers(self._table, self._options, self._jobs) as workers:
            stream = PictureStream(self._table, workers, self._options.on_error, self._meter.tick)
            plan, head = plan_and_head(self._table, self._options, stream)
            for volume_id, volume in enumerate(self._volumes):
                ready = None
                if head and volume_id == 0 and not volume.records:
                    ready = head.take()
                elif head:
                    head.close()
                results.append(write_blocks(plan, volume_id, volume, stream, ready, self._place, journal))
        seconds = time.monotonic() - started
        return finish(plan, results, self._place, overwrite=self._overwrite, seconds=seconds)
