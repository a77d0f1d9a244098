"""What the pack verbs show: a bar while they work, the summary of a set at the end."""

from __future__ import annotations

import json

from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar
from rich.text import Text

from trainload.cli.pack_options import Exif
from trainload.cli.terminal import Terminal, plain
from trainload.images.classes.class_list import some
from trainload.images.classes.left_out import lines_of
from trainload.images.packing.kinds import FATES
from trainload.images.packing.progress import PackProgress
from trainload.images.packing.summary import PackSummary, SetSummary


def show_summary(summary: PackSummary, exif: Exif, *, as_json: bool) -> None:
    """Print it for people, or as JSON."""
    if as_json:
        print(json.dumps(summary.facts(), indent=1))
        return
    for line in summary.compared:
        Terminal().print(f"as published: {line}", soft_wrap=True)
    for each in summary.sets:
        for line in _lines(each, exif):
            Terminal().print(line, soft_wrap=True)


def _lines(each: SetSummary, exif: Exif) -> list[str]:
    """The summary of one set for people."""
    rate = each.pictures / each.seconds if each.seconds else 0.0
    time = f", in {each.seconds:.1f} s ({rate:,.0f} pictures/s)" if each.seconds else ""
    lines = [
        ", ".join(each.paths),
        f"  {each.pictures:,} pictures of {each.classes:,} classes at level {each.level}, "
        f"{each.refused:,} refused{time}",
        f"  {each.total_bytes:,} bytes in {each.blocks:,} blocks from {each.source_bytes:,} source bytes; "
        f"{100 * each.unused_share:.3f} % of the blocks unused, at most {each.max_pictures_per_block:,} pictures each",
    ]
    for names in FATES.values():
        if count := each.kinds.get(names[0]):
            lines.append(f"  {count:,} {names[0]}: {names[1 if each.level == 0 else 2]}")
    if each.kinds.get("EXIF orientation"):
        lines.append(f"  --exif ignore|apply decides on EXIF orientation; it was {exif.value}")
    lines += [f"  left out: {line}" for line in lines_of(each.left_out)]
    if each.empty_classes:
        lines.append(f"  {len(each.empty_classes):,} classes have no pictures: {some(each.empty_classes)}")
    if not each.genuine_readable:
        lines.append("  the genuine loader refuses blocks of more than 1,000 pictures; trainload reads them")
    if not each.paths_stored:
        lines.append("  source paths are not stored: a genuine file has no place for them, or they did not fit")
    lines.append(f"  each special picture has a line in {each.report_path}")
    return lines


class _Rate(ProgressColumn):
    """Pictures per second of this run, what an earlier one did left out; of an archive that is checked, MB."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f} {task.fields['unit']}/s")


class Bar:
    """A progress bar on stderr where that is a terminal; it draws when it is told to and starts no thread."""

    def __init__(self, console: Terminal) -> None:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
        )
        self._bar = ProgressBar(*columns, console=console, auto_refresh=False, disable=not console.is_terminal)
        self._tasks: dict[str, int] = {}

    def show(self, progress: PackProgress) -> None:
        if progress.path not in self._tasks:
            self._tasks[progress.path] = self._bar.add_task(
                plain(progress.path), total=progress.total, completed=progress.resumed, unit=progress.unit
            )
        self._bar.update(self._tasks[progress.path], completed=progress.done, refresh=True)  # type: ignore[arg-type]

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
