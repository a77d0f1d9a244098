"""`trainload.import_recordings`: every log that a pattern finds becomes a recording; one after the other, or on Ray."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainload.cluster.ray_tasks import run_tasks
from trainload.errors import TrainloadError, UsageError
from trainload.formats.progress import Progress
from trainload.recordings.importers.formats import check_format
from trainload.recordings.importers.import_any import import_recording
from trainload.recordings.importers.import_source import ImportReport
from trainload.storage.atomic import tmp_name
from trainload.storage.claim import BeingWrittenError, discard
from trainload.storage.folders import make_folders
from trainload.storage.target import check_target

WAIT_SECONDS = 120.0  # for the lock of an attempt whose end the file system has not noticed
POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ImportsReport:
    """What became of each source, by its path. failures: why it could not be imported.

    kept: sources whose recording was there already, and is not described here.
    """

    reports: dict[str, ImportReport]
    failures: dict[str, str]
    kept: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Everything was read."""
        return not self.failures and not any(report.damage for report in self.reports.values())

    def facts(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        reports = {source: report.facts() for source, report in self.reports.items()}
        return {"imported": reports, "failures": self.failures, "kept": list(self.kept)}


def import_recordings(
    pattern: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    format: str,
    on: Literal["ray"] | None = None,
    ray_address: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> ImportsReport:
    """Import what the pattern finds, each into a recording in the folder `out`, and say what became of each.

    pattern: as in a shell, `logs/*.mcap`; `**` is any number of folders. A recording is named as its source is below
    the part of the pattern without wildcards: `logs/*/run.mcap` gives `<out>/monday/run.hfr`. on: "ray" makes each a
    task on Ray (extra `ray`), on the cluster at ray_address, or None for this machine alone. resume: sources whose
    recording is there are done, what is half done goes on. options: format and the others are those of
    `import_recording`; progress counts the sources' bytes.

    What cannot be imported is among the report's failures, and the rest is imported. Raises UsageError where nothing is
    found, where two sources would have one name, and where a recording exists (unless `overwrite` or `resume`).
    """
    check_format(format)
    if on not in (None, "ray") or (on is None and ray_address is not None):
        raise UsageError(f"an import runs on this machine, or on='ray' with or without an address, not on {on!r}")
    targets = _targets(os.fspath(pattern), Path(out))
    kept = tuple(source for source, target in targets.items() if resume and target.exists())
    todo = [(source, target) for source, target in targets.items() if source not in kept]
    for source, target in todo:
        check_target(target, overwrite=overwrite, inputs=[source])
    for folder in {target.parent for _, target in todo}:
        make_folders(folder)
    found = _Found(todo, progress)
    shared = {"format": format, "overwrite": overwrite, **options}
    if on == "ray":
        if not resume:
            for _, target in todo:
                discard(tmp_name(target))
        tasks = [(str(Path(source).absolute()), str(target.absolute())) for source, target in todo]
        run_tasks(import_task, shared, tasks, address=ray_address, done=found.add)
    else:
        for number, (source, target) in enumerate(todo):
            found.add(number, _imported(source, target, resume=resume, progress=found.within(number), **shared))
    return ImportsReport(found.reports, found.failures, (*kept, *found.kept))


def import_task(options: dict[str, Any], source: str, target: str) -> ImportReport | str | None:
    """What a task does; None where an attempt before it had ended well. One that was killed is gone on with."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        if Path(target).exists() and not options["overwrite"]:
            return None
        try:
            return _imported(source, Path(target), resume=True, **options)
        except BeingWrittenError:
            if time.monotonic() > end:
                raise
            time.sleep(POLL_SECONDS)


def _imported(source: str, target: Path, **options: Any) -> ImportReport | str:
    """The report, or why there is none."""
    try:
        return import_recording(source, target, **options)
    except BeingWrittenError:
        raise
    except (TrainloadError, OSError) as error:
        return str(error)


class _Found:
    """What became of the sources so far, and how many of their bytes are done."""

    def __init__(self, todo: list[tuple[str, Path]], progress: Progress | None) -> None:
        self.reports: dict[str, ImportReport] = {}
        self.failures: dict[str, str] = {}
        self.kept: list[str] = []
        self._sources = [source for source, _ in todo]
        self._sizes = [_size(Path(source)) for source in self._sources]
        self._done = 0
        self._progress = progress

    def add(self, number: int, result: ImportReport | str | None) -> None:
        if result is None:
            self.kept.append(self._sources[number])
        elif isinstance(result, str):
            self.failures[self._sources[number]] = result
        else:
            self.reports[self._sources[number]] = result
        self._done += self._sizes[number]
        self._tell(0)

    def within(self, number: int) -> Callable[[int, int], None]:
        """The progress of one source, as bytes of all."""
        return lambda done, total: self._tell(self._sizes[number] * done // max(total, 1))

    def _tell(self, more: int) -> None:
        if self._progress is not None:
            self._progress(self._done + more, sum(self._sizes))


def _targets(pattern: str, out: Path) -> dict[str, Path]:
    """The recording of each source that the pattern finds, in the order of their names."""
    sources = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - the pattern may be absolute
    if not sources:
        raise UsageError(f"the pattern finds nothing: {pattern}")
    parts = Path(pattern).parts
    fixed = Path(*parts[: next((n for n, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)])
    targets: dict[str, Path] = {}
    owners: dict[Path, str] = {}
    for source in sources:
        name = Path(source).relative_to(fixed)
        target = out / (name.with_suffix(".hfr") if Path(source).is_file() else name.with_name(f"{name.name}.hfr"))
        if target in owners:
            raise UsageError(f"{owners[target]} and {source} would both be {target}: give each a pattern of its own")
        owners[target] = source
        targets[source] = target
    return targets


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    return path.stat().st_size
