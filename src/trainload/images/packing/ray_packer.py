"""One table of pictures into one set of volumes by a cluster: the plan and the end are made here, volumes by tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache

from trainload.cluster.ray_tasks import run_tasks
from trainload.images.packing.finish import finish
from trainload.images.packing.journal import Journal
from trainload.images.packing.plan import (
    PackOptions,
    PackPlan,
    Versions,
    Window,
    check_count,
    identity,
    make_plan_and_window,
)
from trainload.images.packing.plan_file import LOCAL, plan_from_bytes, plan_to_bytes
from trainload.images.packing.progress import Meter, PackProgress
from trainload.images.packing.sources import PictureTable
from trainload.images.packing.summary import SetSummary
from trainload.images.packing.volume_packer import pack_volume
from trainload.images.packing.volume_result import VolumeResult
from trainload.machine.cpus import usable_cpus
from trainload.storage.claim import BeingWrittenError
from trainload.storage.location import Access, Url
from trainload.storage.volume_sink import VolumeSet

WAIT_SECONDS = 120.0  # for the lock of an attempt whose end the file system has not noticed
POLL_SECONDS = 1.0


class RayPacker:
    """As `SetPacker`, each volume a task. jobs: processes, and CPUs, of one task; None is one.

    A run that was killed goes on with `resume`: volumes that are packed are taken as they are.
    """

    def __init__(
        self,
        table: PictureTable,
        place: VolumeSet,
        options: PackOptions,
        *,
        jobs: int | None,
        resume: bool,
        overwrite: bool,
        progress: Callable[[PackProgress], None] | None,
        address: str | None,
    ) -> None:
        check_count(table, options, place.most_blocks)
        place.check(overwrite=overwrite or resume, inputs=[table.files.path])
        self._table = table
        self._place = place
        self._options = options
        self._jobs = jobs or 1
        self._resume = resume
        self._overwrite = overwrite
        self._meter = Meter(place.set_name, len(table), progress)
        self._address = address
        self._results: dict[int, VolumeResult] = {}

    def pack(self) -> SetSummary:
        started = time.monotonic()
        if self._options.volumes == 1:  # its journal is the set's
            return self._pack(started)
        known = identity(self._table, self._options, Versions.here())
        with closing(Journal(self._place.journal_path(None), known, resume=self._resume)) as journal:
            summary = self._pack(started)
            journal.remove()
            return summary

    def _pack(self, started: float) -> SetSummary:
        plan, window = make_plan_and_window(self._table, self._options, jobs=usable_cpus())
        volumes = range(self._options.volumes)
        if not self._resume:
            for volume in volumes:
                self._place.discard(volume)

        def done(volume: int, data: bytes) -> None:
            name = self._place.names[volume]
            self._results[volume] = VolumeResult.from_bytes(data, plan, volume, name)
            self._meter.add(len(plan.pictures(volume)))

        place, path = self._place.for_workers(), self._table.files.path
        access = path.access if isinstance(path, Url) else LOCAL
        run_tasks(
            pack_volume_task,
            plan_to_bytes(plan),
            [(volume, place, self._jobs, self._overwrite, None if volume else window, access) for volume in volumes],
            address=self._address,
            cpus=self._jobs,
            done=done,
        )
        results = [self._results[volume] for volume in volumes]
        seconds = time.monotonic() - started
        return finish(plan, results, self._place, overwrite=self._overwrite, seconds=seconds)


def pack_volume_task(
    plan: bytes, volume: int, place: VolumeSet, jobs: int, overwrite: bool, window: Window | None, access: Access
) -> bytes:
    """What a task does: `pack_volume` with values that travel. An attempt that still has the volume is waited for."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            known = _plan(plan, access)
            result = pack_volume(known, volume, place, jobs=jobs, overwrite=overwrite, window=window)
            return result.to_bytes(known)
        except BeingWrittenError:
            if time.monotonic() > end:
                raise
            time.sleep(POLL_SECONDS)


@lru_cache(maxsize=1)  # a process does many volumes
def _plan(data: bytes, access: Access) -> PackPlan:
    return plan_from_bytes(data, access=access)
