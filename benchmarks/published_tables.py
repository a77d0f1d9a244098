"""The published DTS tables again: seconds for one epoch from a new process, RAW against LV0-3, cold and warm.

usage: published_tables.py --data CLASS_FOLDERS [--mnist FOLDER] [--cifar10 FILE] [--rounds 3] [--measure load decode]
writes bench-out/published_tables.{json,md}

Two measures, a table each. `load` is the publication's: its loader hands each picture to a preprocessing thread as a
pointer into the buffer, and its tables time that. They cannot hold any decoding: the same page gives 340 s for 1,000
epochs of RAW from memory, a third of a second per epoch of 1,281,167 pictures. So here the whole loader runs (order,
reads, checks, threads, batches), and each picture is handed to a worker as a view of its encoded bytes in the arena;
the worker reads the first and the last byte and decodes nothing. `again` is a second such epoch of the same process.
`decode` is what a user gets: the same with train's RandomResizedCrop 224 + flip, val's Resize 256 + CenterCrop 224.
Its RAW is our own folder reader with our own decoder; a folder as it is usually read (torchvision's ImageFolder in
a DataLoader) is a contender in images.py.

Train: five real copies of the pictures, val: one. Cold: the page cache is told to forget the files' bytes first (not
their inodes and folders, which only RAW needs again); warm: they were read just before. MNIST and CIFAR-10: their files
against DTS, whole batches, nothing to decode. Every cell is a process of its own (opening and reading included, imports
not), median over rounds that take turns.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import trainload as tl
from machine import machine
from trainload.images.loading.buffers import BatchPool
from trainload.images.loading.modes import AskedMode

MEASURES = ("load", "decode")
COPIES = 5
BATCH_SIZE = 128


class ByteReader:
    """Stands in for the loader's decoder: takes each picture as a view of its bytes, reads the first and the last."""

    def __init__(self, sizes: np.ndarray[Any, Any]) -> None:
        self._sizes = sizes

    def new_scratch(self) -> None:
        return None

    def decode(self, scratch: None, fill: Any, job: Any, first: int, end: int) -> None:
        ids, arena = job.ids[first:end], fill.arena.data
        places = zip(fill.offsets(ids).tolist(), self._sizes[ids].tolist())
        views = [arena[start : start + size] for start, size in places]
        job.images[first:end] = [(view[0], view[-1]) for view in views]

    def finish(self, job: Any) -> None:
        job.output = (job.images, job.labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder of class folders of JPEGs")
    parser.add_argument("--mnist", type=Path, help="the folder of the original MNIST files")
    parser.add_argument("--cifar10", type=Path, help="a file of original CIFAR-10 records; repeated to 50,000")
    parser.add_argument("--measure", nargs="+", choices=MEASURES, default=MEASURES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    parser.add_argument(
        "--cell", nargs=4, metavar=("PATH", "MODE", "SPLIT", "MEASURE"), help="(internal) time one cell"
    )
    args = parser.parse_args()
    if args.cell:
        print(json.dumps(_time_cell(Path(args.cell[0]), *args.cell[1:])))
        return
    work = args.out / "published-work"
    pictures, arrays = _picture_cells(args.data, work), _array_cells(args.mnist, args.cifar10, work)
    cells = [(measure, *cell) for cell in pictures for measure in args.measure]
    cells += [(args.measure[0], *cell) for cell in arrays]  # nothing to decode
    results: dict[str, list[dict[str, float]]] = {}
    for _, cell, temperature in itertools.product(range(args.rounds), cells, ("cold", "warm")):
        measure, name, path, mode, split = cell
        (_forget if temperature == "cold" else _touch)(path)
        command = [sys.executable, __file__, "--cell", str(path), mode, split, measure]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        results.setdefault(f"{measure}|{name}|{mode}|{temperature}|{split}", []).append(json.loads(done.stdout))
    medians = {key: statistics.median(run["seconds"] for run in runs) for key, runs in results.items()}
    again = {
        key: statistics.median(run["again"] for run in runs) for key, runs in results.items() if "again" in runs[0]
    }
    report = {
        "machine": machine(),
        "rounds": args.rounds,
        "median_seconds": medians,
        "again_seconds": again,
        "all": results,
    }
    text = "\n".join(f"{measure}\n\n{_table(medians, again, measure)}" for measure in args.measure)
    (args.out / "published_tables.json").write_text(json.dumps(report, indent=1) + "\n")
    (args.out / "published_tables.md").write_text(text)
    print(text)


def _picture_cells(data: Path | None, work: Path) -> Iterable[tuple[str, Path, str, str]]:
    if data is None:
        return
    for split, copies in (("train", COPIES), ("val", 1)):
        folder = work / split
        if not folder.is_dir():
            _copy(data, folder, copies)
        paths = {"RAW": folder} | {f"DTS LV{level}": work / f"{split}_lv{level}.dts" for level in range(4)}
        for level, path in enumerate(list(paths.values())[1:]):
            if not path.exists():
                tl.pack_images(folder, path, level=level)
        for name, mode in itertools.product(paths, ("fully", "partial")):
            yield name, paths[name], mode, split


def _array_cells(mnist: Path | None, cifar10: Path | None, work: Path) -> Iterable[tuple[str, Path, str, str]]:
    if mnist:
        plain = work / "mnist"
        if not plain.is_dir():
            tl.pack_arrays("mnist", mnist, plain)
            for file in mnist.glob("*.gz"):
                subprocess.run(f"gunzip -c '{file}' > '{plain / file.stem}'", shell=True, check=True)
        for split, name in (("train", "train-images-idx3-ubyte"), ("val", "t10k-images-idx3-ubyte")):
            yield "MNIST RAW", plain / name, "fully", split
            yield "MNIST DTS", plain / f"mnist_{'train' if split == 'train' else 'test'}.dts", "fully", split
    if cifar10:
        plain = work / "cifar10"
        if not plain.is_dir():
            plain.mkdir(parents=True)
            records = np.fromfile(cifar10, np.uint8).reshape(-1, 3073)
            for n in range(1, 6):
                np.resize(records, (10000, 3073)).tofile(plain / f"data_batch_{n}.bin")
            np.resize(records, (10000, 3073)).tofile(plain / "test_batch.bin")
            tl.pack_arrays("cifar10", plain, plain)
        for split, name in (("train", "data_batch_1.bin"), ("val", "test_batch.bin")):
            yield "CIFAR-10 RAW", plain / name, "fully", split
            yield "CIFAR-10 DTS", plain / f"cifar10_{'train' if split == 'train' else 'test'}.dts", "fully", split


def _copy(data: Path, out: Path, copies: int) -> None:
    for file in sorted(path for path in data.rglob("*") if path.is_file()):
        folder = out / file.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        for copy in range(copies):
            shutil.copyfile(file, folder / f"{file.stem}_{copy}.JPEG")


def _time_cell(path: Path, mode: AskedMode, split: str, measure: str) -> dict[str, float]:
    """seconds: from the closed file to the end of one epoch; again: of a second one, where nothing is decoded."""
    ops: list[Any] = [tl.RandomResizedCrop(224), tl.RandomHorizontalFlip()]
    if split == "val":
        ops = [tl.Resize(256), tl.CenterCrop(224)]
    loader_type, opener = tl.ImageLoader, tl.open_images
    start = time.perf_counter()
    if path.suffix in ("", ".bin") and path.is_file():
        count = _raw_array_epoch(path)
        return {"seconds": time.perf_counter() - start, "pictures": count}
    data = opener(path)
    arrays = not hasattr(data, "num_blocks") and path.is_file()
    loader = loader_type(
        data,
        batch_size=BATCH_SIZE,
        ops=[] if arrays else ops,
        mode=mode,
        seed=0,
        shuffle="auto" if split == "train" else "none",
    )
    if measure == "load" and not arrays:
        assert isinstance(data, tl.DtsReader | tl.FolderReader)
        loader._decoder = ByteReader(data.sizes)  # type: ignore[assignment]
        loader._pool = BatchPool((BATCH_SIZE, 2), np.uint8, 5)
    found: dict[str, float] = {"pictures": sum(len(batch[0]) for batch in loader)}
    found["seconds"] = time.perf_counter() - start
    if measure == "load":
        start = time.perf_counter()
        found["pictures"] += sum(len(batch[0]) for batch in loader)
        found["again"] = time.perf_counter() - start
    return found


def _raw_array_epoch(path: Path) -> int:
    """The original files as a careful user reads them: whole, numpy, shuffled, gathered batch by batch."""
    if path.suffix == ".bin":
        names = sorted(path.parent.glob("data_batch_*.bin")) if path.name.startswith("data") else [path]
        records = np.concatenate([np.fromfile(name, np.uint8).reshape(-1, 3073) for name in names])
        pixels = np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels = records[:, 0].astype(np.int64)
    else:
        pixels = np.fromfile(path, np.uint8)[16:].reshape(-1, 28, 28, 1)
        labels = np.fromfile(str(path).replace("images-idx3", "labels-idx1"), np.uint8)[8:].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(pixels))
    count = 0
    for start in range(0, len(order), BATCH_SIZE):
        ids = order[start : start + BATCH_SIZE]
        count += len((pixels[ids], labels[ids])[0])
    return count


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return [file for file in path.rglob("*") if file.is_file()]
    if path.name.startswith("data_batch"):
        return sorted(path.parent.glob("data_batch_*.bin"))
    return [path]


def _forget(path: Path) -> None:
    """Ask the system to drop the files from the page cache."""
    for file in _files(path):
        fd = os.open(file, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def _touch(path: Path) -> None:
    for file in _files(path):
        file.read_bytes()


def _table(medians: dict[str, float], again: dict[str, float], measure: str) -> str:
    """Seconds of one measure; `again` of the warm train cell; cold train as a multiple of RAW's speed in that mode."""
    lines = ["| data | mode | cold train | cold val | warm train | warm val | again, train | cold train, RAW = 1 |"]
    lines.append("|---" * 8 + "|")
    rows = dict.fromkeys(tuple(key.split("|")[1:3]) for key in medians if key.startswith(f"{measure}|"))
    for name, mode in rows:
        keys = [f"{measure}|{name}|{mode}|{t}|{s}" for t in ("cold", "warm") for s in ("train", "val")]
        shown = [f"{medians[key]:.3f} s" for key in keys]
        shown.append(f"{again[keys[2]]:.3f} s" if keys[2] in again else "")
        raw = medians.get(f"{measure}|{_raw_of(name)}|{mode}|cold|train")
        shown.append(f"{raw / medians[keys[0]]:.2f} x" if raw else "")
        lines.append(f"| {name} | {mode} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def _raw_of(name: str) -> str:
    return "RAW" if name.startswith("DTS") or name == "RAW" else name.rsplit(" ", 1)[0] + " RAW"


if __name__ == "__main__":
    main()
