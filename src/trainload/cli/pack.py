"""`trainload pack images`: class folders or tars of pictures into DTS files. The other pack verbs join `pack_app`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from trainload.cli.app import app
from trainload.cli.on_cluster import OnOption, RayAddressOption
from trainload.cli.pack_options import (
    Check,
    CheckOption,
    ClassesAsIsOption,
    ClassesFrom,
    ClassesOption,
    Exif,
    ExifOption,
    ExpectOption,
    JobsOption,
    JsonOption,
    LabelsOption,
    LevelOption,
    MinBlocksOption,
    Names,
    NamesOption,
    OnError,
    OnErrorOption,
    OutOption,
    Oversize,
    OversizeOption,
    OverwriteOption,
    PrepOption,
    ReferenceOption,
    SeedOption,
    SplitOption,
    SrcOption,
    VolumesOption,
    min_blocks_of,
)
from trainload.cli.pack_show import Bar, show_summary
from trainload.cli.terminal import Terminal
from trainload.errors import FormatError, SampleError, TrainloadError
from trainload.images.packing.arrange import REFERENCE_SEED
from trainload.images.packing.images import pack_images

pack_app = typer.Typer(no_args_is_help=True, help="Write DTS files.")
app.add_typer(pack_app, name="pack")


@pack_app.command(cls=ClassesFrom)
def images(
    src: SrcOption,
    out: OutOption,
    level: LevelOption = 3,
    split: SplitOption = None,
    jobs: JobsOption = None,
    volumes: VolumesOption = 1,
    exif: ExifOption = Exif.ignore,
    oversize: OversizeOption = Oversize.reencode,
    on_error: OnErrorOption = OnError.raise_,
    check: CheckOption = Check.markers,
    seed: SeedOption = REFERENCE_SEED,
    reference: ReferenceOption = False,
    min_blocks: MinBlocksOption = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what a killed run left.")] = False,
    overwrite: OverwriteOption = False,
    classes: ClassesOption = None,
    classes_as_is: ClassesAsIsOption = False,
    labels: LabelsOption = None,
    expect: ExpectOption = None,
    names: NamesOption = Names.plain,
    val_set_prep: PrepOption = False,
    on: OnOption = None,
    ray_address: RayAddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pack a folder of pictures (or a tar of one) into DTS."""
    console = Terminal(errors=True)
    with _resume_hint(console, out), Bar(console) as bar:
        summary = pack_images(
            src,
            out,
            level=level,
            split=None if split is None else split.value,
            reference=reference,
            min_blocks=min_blocks_of(min_blocks),
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
            on=None if on is None else "ray",
            ray_address=ray_address,
            progress=bar.show,
        )
    show_summary(summary, exif, as_json=as_json)


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
