"""The switches that `pack images` and `pack plan` share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from trainload.errors import UsageError


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


class ClassesFrom(TyperCommand):
    """Takes `--classes from FILE` as `--classes FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for n in range(len(args) - 2):
            if args[n : n + 2] == ["--classes", "from"]:
                return super().parse_args(ctx, [*args[: n + 1], *args[n + 2 :]])
        return super().parse_args(ctx, args)


SrcOption = Annotated[
    str, typer.Argument(metavar="SRC", help="Class folders, train/ and val/ of them, a tar, ImageNet's archives.")
]
OutOption = Annotated[str, typer.Argument(metavar="OUT", help="The .dts file; a folder where SRC has train and val.")]
LevelOption = Annotated[int, typer.Option(min=0, max=3, help="0 keeps the source bytes, 1 to 3 shrink.")]
SplitOption = Annotated[
    SplitName | None,
    typer.Option(help="What a SRC without train/ and val/ is.", show_default="train, but by the archive's name"),
]
JobsOption = Annotated[
    int | None, typer.Option(min=1, help="Processes; on Ray, of each task.", show_default="one per core; on Ray, 1")
]
VolumesOption = Annotated[int, typer.Option(min=1, help="Files per set.")]
ExifOption = Annotated[Exif, typer.Option(help="Levels 1 to 3: turn pictures upright as EXIF says?")]
OversizeOption = Annotated[Oversize, typer.Option(help="For a picture larger than a block.")]
OnErrorOption = Annotated[OnError, typer.Option(help="For a picture that cannot be used.")]
CheckOption = Annotated[Check, typer.Option(help="Level 0: how to look for damage.")]
SeedOption = Annotated[int, typer.Option(help="Of the order of the pictures.")]
ReferenceOption = Annotated[bool, typer.Option("--reference", help="The genuine exporter's bytes.")]
MinBlocksOption = Annotated[
    str, typer.Option(metavar="N|N,N|auto", help="Reference, level 0: blocks to open with; of train and val.")
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace OUT where it exists.")]
ClassesOption = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="[from] FILE",
        show_default="the folders' sorted names",
        help="All class names in label order: of a set, of class folders, or a text file, one name per line.",
    ),
]
ClassesAsIsOption = Annotated[
    bool, typer.Option("--classes-as-is", help="Folders named train, val, test and the like are classes.")
]
LabelsOption = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="Of pictures in no class folders: lines of name and class, a CSV, classes in order, ImageNet's kit.",
    ),
]
ExpectOption = Annotated[
    Expect | None, typer.Option(help="Compare with what was published; pack nothing where SRC differs.")
]
NamesOption = Annotated[Names, typer.Option(help="genuine: OUT is a folder and gets imagenet_{train,val}_lvN.dts.")]
PrepOption = Annotated[bool, typer.Option("--val-set-prep", help="Set the header's flag of that name.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


def min_blocks_of(text: str) -> int | tuple[int, int] | None:
    """What --min-blocks says."""
    if text == "auto":
        return None
    numbers = text.split(",")
    if len(numbers) > 2 or not all(map(str.isdecimal, numbers)):
        raise UsageError(f"--min-blocks takes a number, two (of train and val), or auto, not {text}")
    return int(numbers[0]) if len(numbers) == 1 else (int(numbers[0]), int(numbers[1]))
