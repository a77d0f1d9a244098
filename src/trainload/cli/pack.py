"""`trainload pack images`: class folders or tars of pictures into DTS files. The other pack verbs join `pack_app`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar
from rich.text import Text
from typer.core import TyperCommand

from trainload.cli.app import app
from trainload.cli.terminal import Terminal, plain
from trainload.errors import FormatError, SampleError, TrainloadError, UsageError
from trainload.images.classes.class_list import some
from trainload.images.classes.left_out import lines_of
from trainload.images.packing.arrange import REFERENCE_SEED
from trainload.images.packing.images import pack_images
from trainload.images.packing.kinds import FATES
from trainload.images.packing.progress import PackProgress
from trainload.images.packing.summary import SetSummary

pack_app = typer.Typer(no_args_is_help=True, help="Write DTS files.")
app.add_typer(pack_app, name="pack")


class SplitName(StrEnum):
    train = "train"
    val = "val"


class Exif(StrEnum):
    ignore = "ignore"
    apply = "apply"


class Oversize(StrEnum):
    reencode = "reencode"
    refuse = "refuse"


class OnError(StrEnum):
    raise_ = "raise"
    skip = "skip"


class Check(StrEnum):
    markers = "markers"
    decode = "decode"


class Expect(StrEnum):
    imagenet = "imagenet"


class Names(StrEnum):
    plain = "plain"
    genuine = "genuine"


class _ClassesFrom(TyperCommand):
    """Takes `--classes from FILE` as `--classes FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for n in range(len(args) - 2):
            if args[n : n + 2] == ["--classes", "from"]:
                return super().parse_args(ctx, [*args[: n + 1], *args[n + 2 :]])
        return super().parse_args(ctx, args)


@pack_app.command(cls=_ClassesFrom)
def images(
    src: Annotated[
        str, typer.Argument(metavar="SRC", help="Class folders, train/ and val/ of them, a tar, ImageNet's archives.")
    ],
    out: Annotated[str, typer.Argument(metavar="OUT", help="The .dts file; a folder where SRC has train and val.")],
    level: Annotated[int, typer.Option(min=0, max=3, help="0 keeps the source bytes, 1 to 3 shrink.")] = 3,
    split: Annotated[
        SplitName | None,
        typer.Option(help="What a SRC without train/ and val/ is.", show_default="train, but by the archive's name"),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="one per core")] = None,
    volumes: Annotated[int, typer.Option(min=1, help="Files per set.")] = 1,
    exif: Annotated[Exif, typer.Option(help="Levels 1 to 3: turn pictures upright as EXIF says?")] = Exif.ignore,
    oversize: Annotated[Oversize, typer.Option(help="For a picture larger than a block.")] = Oversize.reencode,
    on_error: Annotated[OnError, typer.Option(help="For a picture that cannot be used.")] = OnError.raise_,
    check: Annotated[Check, typer.Option(help="Level 0: how to look for damage.")] = Check.markers,
    seed: Annotated[int, typer.Option(help="Of the order of the pictures.")] = REFERENCE_SEED,
    reference: Annotated[bool, typer.Option("--reference", help="The genuine exporter's bytes.")] = False,
    min_blocks: Annotated[
        str, typer.Option(metavar="N|N,N|auto", help="Reference, level 0: blocks to open with; of train and val.")
    ] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what a killed run left.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT where it exists.")] = False,
    classes: Annotated[
        str | None,
        typer.Option(
            "--classes",
            metavar="[from] FILE",
            show_default="the folders' sorted names",
            help="All class names in label order: of a set, of class folders, or a text file, one name per line.",
        ),
    ] = None,
    classes_as_is: Annotated[
        bool, typer.Option("--classes-as-is", help="Folders named train, val, test and the like are classes.")
    ] = False,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="Of pictures in no class folders: lines of name and class, a CSV, classes in order, ImageNet's kit.",
        ),
    ] = None,
    expect: Annotated[
        Expect | None, typer.Option(help="Compare with what was published; pack nothing where SRC differs.")
    ] = None,
    names: Annotated[
        Names, typer.Option(help="genuine: OUT is a folder and gets imagenet_{train,val}_lvN.dts.")
    ] = Names.plain,
    val_set_prep: Annotated[bool, typer.Option("--val-set-prep", help="Set the header's flag of that name.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Pack a folder of pictures (or a tar of one) into DTS."""
    console = Terminal(errors=True)
    with _resume_hint(console, out), _Bar(console) as bar:
        summary = pack_images(
            src,
            out,
            level=level,
            split=None if split is None else split.value,
            reference=reference,
            min_blocks=_min_blocks(min_blocks),
            volumes=volumes,
            jobs=jobs,
            seed=seed,
            exif=exif.value,
            oversize=oversize.value,
            on_error=on_error.value,
            check=check.value,
            resume=resume,
            overwrite=overwrite,
            classes=classes,
            classes_as_is=classes_as_is,
            labels=labels,
            expect=None if expect is None else "imagenet",
            names=names.value,
            val_set_prep=val_set_prep,
            progress=bar.show,
        )
    if as_json:
        print(json.dumps(summary.facts(), indent=1))
        return
    for line in summary.compared:
        Terminal().print(f"as published: {line}", soft_wrap=True)
    for each in summary.sets:
        for line in _lines(each, exif):
            Terminal().print(line, soft_wrap=True)


@contextmanager
def _resume_hint(console: Terminal, out: str) -> Iterator[None]:
    """Says after an error, or Ctrl-C, that the work so far is not lost, where that is so."""
    try:
        yield
    except BaseException as error:
        way_on = _way_on(error)
        if way_on and [*Path(out).parent.glob(f"{Path(out).name}.journal"), *Path(out).glob("*.journal")]:
            console.print(f"what is packed so far is kept: {way_on}", soft_wrap=True)
        raise


def _way_on(error: BaseException) -> str:
    """What goes on from where this ended the pack; "" where only the error can say."""
    anew = "a source whose files have changed since is packed anew, without --resume"
    if isinstance(error, SampleError):
        return f"the same command with --resume --on-error skip goes on and leaves such pictures out; {anew}"
    if isinstance(error, TrainloadError):
        return anew if isinstance(error, FormatError) else ""
    if isinstance(error, OSError):
        return (
            "once the cause is mended, the same command with --resume goes on from there; "
            "with --on-error skip too it leaves out files that cannot be read"
        )
    return "the same command with --resume goes on from there"


def _min_blocks(text: str) -> int | tuple[int, int] | None:
    if text == "auto":
        return None
    numbers = text.split(",")
    if len(numbers) > 2 or not all(map(str.isdecimal, numbers)):
        raise UsageError(f"--min-blocks takes a number, two (of train and val), or auto, not {text}")
    return int(numbers[0]) if len(numbers) == 1 else (int(numbers[0]), int(numbers[1]))


def _lines(each: SetSummary, exif: Exif) -> list[str]:
    """The summary of one set for people."""
    rate = each.pictures / each.seconds if each.seconds else 0.0
    lines = [
        ", ".join(each.paths),
        f"  {each.pictures:,} pictures of {each.classes:,} classes at level {each.level}, {each.refused:,} refused, "
        f"in {each.seconds:.1f} s ({rate:,.0f} pictures/s)",
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


class _Bar:
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

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
