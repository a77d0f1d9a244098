"""`trainload pack mnist|cifar10|cifar100`: the original files into a training and a validation DTS file."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from trainload.cli.pack import pack_app
from trainload.cli.terminal import Terminal
from trainload.images.packing.arrays import ArrayKind, pack_arrays

_Src = Annotated[str, typer.Argument(metavar="SRC", help="Folder or tar with the original files, gzipped or not.")]
_Out = Annotated[str, typer.Argument(metavar="OUT_DIR", help="Folder for the two .dts files.")]
_Reference = Annotated[bool, typer.Option("--reference", help="Write the sizes that the genuine exporter writes.")]
_Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that have the names.")]
_Expect = Annotated[
    str | None, typer.Option(metavar="SET", help="The set's name: compare with what was published, else write nothing.")
]
_Prep = Annotated[bool, typer.Option("--val-set-prep", help="Set the header's flag of that name.")]
_Json = Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")]


@pack_app.command()
def mnist(
    src: _Src,
    out_dir: _Out,
    reference: _Reference = False,
    overwrite: _Overwrite = False,
    expect: _Expect = None,
    val_set_prep: _Prep = False,
    as_json: _Json = False,
) -> None:
    """Pack MNIST (or a set in its form) from its four idx files."""
    _pack(
        "mnist",
        src,
        out_dir,
        reference=reference,
        overwrite=overwrite,
        expect=expect,
        val_set_prep=val_set_prep,
        as_json=as_json,
    )


@pack_app.command()
def cifar10(
    src: _Src,
    out_dir: _Out,
    overwrite: _Overwrite = False,
    expect: _Expect = None,
    val_set_prep: _Prep = False,
    as_json: _Json = False,
) -> None:
    """Pack CIFAR-10 from the binary version."""
    _pack(
        "cifar10",
        src,
        out_dir,
        reference=False,
        overwrite=overwrite,
        expect=expect,
        val_set_prep=val_set_prep,
        as_json=as_json,
    )


@pack_app.command()
def cifar100(
    src: _Src,
    out_dir: _Out,
    overwrite: _Overwrite = False,
    expect: _Expect = None,
    val_set_prep: _Prep = False,
    as_json: _Json = False,
) -> None:
    """Pack CIFAR-100 (fine labels) from the binary version."""
    _pack(
        "cifar100",
        src,
        out_dir,
        reference=False,
        overwrite=overwrite,
        expect=expect,
        val_set_prep=val_set_prep,
        as_json=as_json,
    )


def _pack(
    kind: ArrayKind,
    src: str,
    out_dir: str,
    *,
    reference: bool,
    overwrite: bool,
    expect: str | None,
    val_set_prep: bool,
    as_json: bool,
) -> None:
    written = pack_arrays(
        kind, src, out_dir, reference=reference, overwrite=overwrite, expect=expect, val_set_prep=val_set_prep
    )
    if as_json:
        print(json.dumps({"written": written}, indent=1))
        return
    console = Terminal()
    if expect is not None:
        console.print(f"as published: {expect}")
    for file in written:
        console.print(f"{file['path']}: {file['samples']:,} samples, {file['bytes']:,} bytes", soft_wrap=True)
