"""Picture loaders against one another: RandomResizedCrop 224 + flip, batch 128, one process per contender and round.

usage: images.py --peers .peers --data CLASS_FOLDERS [--rounds 3] [--only NAME]  writes bench-out/images.{json,md,png}

Every contender reads the pictures as they are, and again at LV3's size (short side 400, at most 600 x 400, quality 80),
so that nobody is slow because of larger pictures. FFCV does so once more from pixels, which need no JPEG decoder and 14
times the space; that row is no "best other from JPEGs". The pictures are repeated five times by links: longer epochs.
Rounds go through all contenders in turn, and medians over the rounds are reported: a shared machine's speed drifts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import trainload as tl
from machine import machine

HERE = Path(__file__).parent
COPIES = 5
KINDS = ("uint8", "float32")
PEERS = {
    "torchvision_pil": "loaders",
    "torchvision_io": "loaders",
    "ffcv_beton": "loaders",
    "ffcv_beton --raw": "loaders",
    "dali_cpu": "dali",
    "spdl_threads": "loaders",
    "turboloader_tar": "loaders",
    "webdataset_tar": "loaders",
    "litdata_chunks": "loaders",
    "mds_shards": "loaders",
}
OURS = ("folder", "0", "3")
PIXELS = "FFCV (.beton, pixels)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, required=True, help="the folder that setup_peers.sh filled")
    parser.add_argument("--data", type=Path, required=True, help="a folder of class folders of JPEGs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2, help="measured epochs of each contender and round")
    parser.add_argument("--only", help="just the contenders whose script has this in its name")
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    args = parser.parse_args()
    work = args.out / "images-work"
    sizes = {"full": _repeat(args.data, work / "full"), "small": _small(args.data, work)}
    runs = [run for run in _contenders(args.peers, work, sizes) if not args.only or args.only in run[1][1]]
    results: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number in range(args.rounds):
        for name, command in runs:
            print(f"round {number + 1} of {args.rounds}: {name}", file=sys.stderr, flush=True)
            done = subprocess.run(
                [*command, "--epochs", str(args.epochs)], capture_output=True, text=True, timeout=600, check=False
            )
            if done.returncode == 0:
                results[name].append(json.loads(done.stdout.splitlines()[-1]))
            else:
                print(done.stderr[-800:], file=sys.stderr)
    rows = [_median(name, found) for name, found in results.items()]
    report = {"machine": machine(), "data": f"{COPIES} x {args.data.name}", "rounds": args.rounds, "rows": rows}
    (args.out / "images.json").write_text(json.dumps(report, indent=1) + "\n")
    (args.out / "images.md").write_text(_table(rows))
    _chart(rows, args.out / "images.png")
    print(_table(rows))


def _contenders(peers: Path, work: Path, sizes: dict[str, Path]) -> list[tuple[str, list[str]]]:
    runs = []
    for kind in KINDS:
        for contender, environment in PEERS.items():
            script, *options = contender.split()
            if (script, kind) == ("turboloader_tar", "uint8"):
                continue  # its augmented tar path gives float32 only
            for size, folder in sizes.items():
                if options and size == "full":
                    continue  # nobody keeps ImageNet as a terabyte of pixels
                python = str(peers / environment / "bin" / "python")
                quality = {"full": "90", "small": "80"}[size]
                command = [
                    python,
                    str(HERE / "peers" / f"{script}.py"),
                    "--data",
                    str(folder),
                    "--kind",
                    kind,
                    "--work",
                    str(work / f"packed-{size}"),
                    "--quality",
                    quality,
                    *options,
                ]
                runs.append((f"{contender}/{size}/{kind}", command))
        for level in OURS:
            command = [
                sys.executable,
                str(HERE / "peers" / "trainload_dts.py"),
                "--level",
                level,
                "--data",
                str(sizes["full"]),
                "--kind",
                kind,
                "--work",
                str(work / "packed-full"),
            ]
            runs.append((f"trainload_{level}/{'small' if level == '3' else 'full'}/{kind}", command))
    return runs


def _repeat(data: Path, out: Path) -> Path:
    """Class folders with every picture COPIES times, as links."""
    for file in sorted(path for path in data.resolve().rglob("*") if path.is_file()):
        folder = out / file.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        for copy in range(COPIES):
            link = folder / f"{file.stem}_{copy}.JPEG"
            if not link.is_symlink():
                link.symlink_to(file)
    return out


def _small(data: Path, work: Path) -> Path:
    """The pictures at LV3 as the genuine exporter makes them (no restart markers), as a folder, repeated."""
    plain = work / "small-once"
    if not plain.is_dir():
        tl.pack_images(data, work / "small.dts", level=3, reference=True, overwrite=True)
        with tl.open_images(work / "small.dts") as small:
            for sample in small:
                folder = plain / f"{sample.label:04d}"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{sample.id:05d}.JPEG").write_bytes(sample.data)
    return _repeat(plain, work / "small")


def _median(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    size = name.split("/")[1]
    speeds = [run["pictures_per_s"] for run in found]
    cpu = [run["cpu_ms_per_picture"] for run in found]
    return {
        "name": found[0]["name"],
        "pictures": size,
        "kind": found[0]["kind"],
        "rounds": len(found),
        "pictures_per_s": statistics.median(speeds),
        "cpu_ms_per_picture": statistics.median(cpu),
        "pictures_per_s_all": [round(speed) for speed in speeds],
    }


def _table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for kind in KINDS:
        of_kind = sorted((row for row in rows if row["kind"] == kind), key=lambda row: row["pictures_per_s"])
        others = [row["pictures_per_s"] for row in of_kind if not row["name"].startswith(("trainload", PIXELS))]
        best = max(others, default=float("nan"))
        lines += [
            f"| {kind} | pictures | pictures/s | CPU ms per picture | against the best other from JPEGs |",
            "|---|---|---|---|---|",
        ]
        for row in of_kind:
            lines.append(
                f"| {row['name']} | {row['pictures']} | {row['pictures_per_s']:,.0f} "
                f"| {row['cpu_ms_per_picture']:.2f} | {row['pictures_per_s'] / best:.2f} |"
            )
        lines.append("")
    return "\n".join(lines)


def _chart(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5.5), layout="constrained")
    for axes, kind in zip(figure.subplots(1, len(KINDS)), KINDS):
        of_kind = sorted((row for row in rows if row["kind"] == kind), key=lambda row: row["pictures_per_s"])
        names = [f"{row['name']}, {row['pictures']}" for row in of_kind]
        colours = ["#2f7ed8" if row["name"].startswith("trainload") else "#8a8f98" for row in of_kind]
        bars = axes.barh(names, [row["pictures_per_s"] for row in of_kind], color=colours)
        axes.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
        axes.set_title(f"{kind}: pictures per second", loc="left", fontsize=10)
        axes.tick_params(labelsize=8)
        axes.margins(x=0.15)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
