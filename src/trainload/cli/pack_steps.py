"""`trainload pack plan|volume|finish`: a set packed by jobs of any scheduler, each volume where and when it likes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import trainload.cli.pack_arrays  # noqa: F401 - its verbs join pack_app too
from trainload.cli.pack import pack_app
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
from trainload.errors import UsageError
from trainload.images.packing.arrange import REFERENCE_SEED
from trainload.images.packing.finish import finish as finish_set
from trainload.images.packing.finish import kept_results
from trainload.images.packing.images import image_sets
from trainload.images.packing.plan import PackPlan, check_count, make_plan
from trainload.images.packing.plan_file import read_plan, write_plan
from trainload.images.packing.summary import PackSummary
from trainload.images.packing.volume_packer import pack_volume
from trainload.machine.cpus import usable_cpus
from trainload.storage.folders import make_folders
from trainload.storage.location import is_url
from trainload.storage.target import check_target
from trainload.storage.volume_sink import VolumeSet, volumes_at

ENDING = ".plan"
_Plan = Annotated[str, typer.Argument(metavar="OUT.plan", help="What `trainload pack plan` wrote.")]


@pack_app.command(cls=ClassesFrom)
def plan(
    src: SrcOption,
    out: OutOption,
    volumes: VolumesOption,
    level: LevelOption = 3,
    split: SplitOption = None,
    jobs: JobsOption = None,
    exif: ExifOption = Exif.ignore,
    oversize: OversizeOption = Oversize.reencode,
    on_error: OnErrorOption = OnError.raise_,
    check: CheckOption = Check.markers,
    seed: SeedOption = REFERENCE_SEED,
    reference: ReferenceOption = False,
    min_blocks: MinBlocksOption = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT.plan; let OUT exist.")] = False,
    classes: ClassesOption = None,
    classes_as_is: ClassesAsIsOption = False,
    labels: LabelsOption = None,
    expect: ExpectOption = None,
    names: NamesOption = Names.plain,
    val_set_prep: PrepOption = False,
    as_json: JsonOption = False,
) -> None:
    """Decide what the volumes of a set share, and write it to OUT.plan; the source is read where the plan says."""
    with Bar(Terminal(errors=True)) as bar:
        sets, compared = image_sets(
            src,
            out,
            level=level,
            split=None if split is None else split.value,
            reference=reference,
            min_blocks=min_blocks_of(min_blocks),
            volumes=volumes,
            exif=exif.value,
            oversize=oversize.value,
            on_error=on_error.value,
            check=check.value,
            seed=seed,
            classes=classes,
            classes_as_is=classes_as_is,
            labels=labels,
            expect=None if expect is None else "imagenet",
            names=names.value,
            val_set_prep=val_set_prep,
            progress=bar.show,
        )
        plans = {}
        for path, (table, options) in sets.items():
            place = volumes_at(path, volumes)
            place.check(overwrite=overwrite, inputs=[table.files.path])
            check_count(table, options, place.most_blocks)
            file = path + ENDING
            if not is_url(file):
                check_target(file, overwrite=overwrite, inputs=[table.files.path])
            plans[file] = make_plan(table, options, jobs=jobs or usable_cpus(), progress=bar.show)
    for file, made in plans.items():
        if not is_url(file):
            make_folders(Path(file).parent)
        write_plan(made, file)
    if as_json:
        print(json.dumps({"plans": [_facts(file, made) for file, made in plans.items()], "compared": compared}))
        return
    for line in compared:
        Terminal().print(f"as published: {line}", soft_wrap=True)
    for file, made in plans.items():
        last = made.options.volumes - 1
        Terminal().print(
            f"{file}: {len(made.table):,} pictures in volumes 0 to {last:,}; next: trainload pack volume {file} N for "
            f"each of them, anywhere, then trainload pack finish {file}",
            soft_wrap=True,
        )


@pack_app.command()
def volume(
    plan: _Plan,
    number: Annotated[int, typer.Argument(metavar="N", min=0, help="Which volume, from 0.")],
    jobs: JobsOption = None,
    anew: Annotated[bool, typer.Option("--anew", help="Take nothing over from an earlier attempt.")] = False,
    overwrite: OverwriteOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was packed as JSON.")] = False,
) -> None:
    """Pack one volume of a plan; after a kill, the same command goes on from there."""
    known, place = _open(plan)
    with Bar(Terminal(errors=True)) as bar:
        result = pack_volume(
            known,
            number,
            place,
            jobs=jobs or usable_cpus(),
            resume=not anew,
            overwrite=overwrite,
            progress=bar.show,
        )
    pictures = sum(len(record.pictures) for record in result.records)
    facts = {"volume": number, "pictures": pictures, "blocks": len(result.records)}
    if as_json:
        print(json.dumps(facts))
    else:
        Terminal().print(f"volume {number:,}: {pictures:,} pictures in {len(result.records):,} blocks")


@pack_app.command()
def finish(
    plan: _Plan,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write what depends on all volumes of a plan, and give the files their names. OUT.plan stays."""
    known, place = _open(plan)
    summary = finish_set(known, kept_results(known, place), place, overwrite=overwrite)
    show_summary(PackSummary((summary,)), Exif(known.options.exif), as_json=as_json)


def _open(path: str) -> tuple[PackPlan, VolumeSet]:
    """A plan, and where its set goes: beside it."""
    if not path.endswith(ENDING):
        raise UsageError(f"a plan has the name of its set and {ENDING} after it: {path}")
    plan = read_plan(path)
    place = volumes_at(path.removesuffix(ENDING), plan.options.volumes)
    place.prepare()
    return plan, place


def _facts(file: str, plan: PackPlan) -> dict[str, object]:
    return {
        "path": str(file),
        "pictures": len(plan.table),
        "volumes": plan.options.volumes,
        "block_header_size": plan.block_header_size,
        "refused": len(plan.refusals),
        "digest": plan.digest,
    }
