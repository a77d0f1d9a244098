"""The contenders of recordings_training.py: each reads one epoch of the composite drive, window by window, to arrays.

A batch is four windows of 100 ms; a window is, per stream, a list of arrays (sweeps float32 (n, 4), pictures uint8, IMU
float32 (20, 6)), neither stacked nor padded. "pread" makes no arrays: it is what the disk or the page cache gives; with
CRC-32 it is what is left for a loader that keeps a few batches in memory and checks every frame.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from isal import isal_zlib
from mcap.reader import SeekingReader
from torch.utils.data import DataLoader, Dataset

import trainload as tl
from recordings_data import STREAMS, WINDOW_NS
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.samples.clip import Clip
from trainload.recordings.samples.collate import Vary
from trainload.torch import WindowDataset

BATCH_SIZE = 4
READ_BYTES = 4 << 20
WORKERS = 2
KEPT = 4 * BATCH_SIZE  # windows in memory: three batches in the making and the one in use

Epoch = Callable[[int], int]  # seed -> bytes of payload
Window = dict[str, list[torch.Tensor]]

warnings.filterwarnings("ignore", message="The given (buffer|NumPy array) is not writable")


def pread(drive: Path) -> Epoch:
    """Sequential preads of 4 MB into one buffer that stays in the processor's cache."""

    def epoch(seed: int) -> int:
        buffer, at, handle = bytearray(READ_BYTES), 0, os.open(drive, os.O_RDONLY)
        while count := os.preadv(handle, [buffer], at):
            at += count
        os.close(handle)
        return at

    return epoch


def pread_kept(drive: Path) -> Epoch:
    """The same into fresh memory for each read, as whoever keeps what it reads must."""

    def epoch(seed: int) -> int:
        at, handle = 0, os.open(drive, os.O_RDONLY)
        while count := os.preadv(handle, [np.empty(READ_BYTES, np.uint8).data], at):
            at += count
        os.close(handle)
        return at

    return epoch


def pread_checked(drive: Path, workers: int = WORKERS) -> Epoch:
    """One pread per window into one of KEPT buffers in turn, the CRC-32 of each frame in it, and nothing else."""
    with tl.open_recording(drive) as reader:
        windows = [
            sorted(
                (offset, size)
                for stream in reader.windows.entries(k).values()
                for offset, size in zip(stream["byte_offset"].tolist(), stream["byte_size"].tolist())
            )
            for k in range(len(reader))
        ]
    spans = [(frames[0][0], frames[-1][0] + frames[-1][1]) for frames in windows]
    largest = max(end - start for start, end in spans)
    buffers = [np.empty(largest, np.uint8).data for _ in range(KEPT)]
    pool = ThreadPoolExecutor(workers)

    def share(worker: int) -> int:
        total, handle = 0, os.open(drive, os.O_RDONLY)
        for n in range(worker, len(windows), workers):
            start, end = spans[n]
            buffer = buffers[n % KEPT][: end - start]
            total += os.preadv(handle, [buffer], start)
            for offset, size in windows[n]:
                isal_zlib.crc32(buffer[offset - start : offset - start + size])
        os.close(handle)
        return total

    return lambda seed: sum(pool.map(share, range(workers)))


def pread_checked_one_thread(drive: Path) -> Epoch:
    """The same in one thread."""
    return pread_checked(drive, workers=1)


def loader(drive: Path, workers: int = WORKERS, vary: Vary = "views", verify: str = "frames") -> Epoch:
    """HyperframeLoader: chunks of windows in random order, windows shuffled inside groups; each CRC-32 compared."""
    windows = tl.WindowDataset(HyperframeReader(drive, verify=verify))
    batches = tl.HyperframeLoader(windows, batch_size=BATCH_SIZE, workers=workers, vary=vary)

    def epoch(seed: int) -> int:
        batches.set_epoch(seed)
        return sum(_bytes_of(values) for batch in batches for values in batch.values.values())

    return epoch


def loader_one_thread(drive: Path) -> Epoch:
    """The same with one thread."""
    return loader(drive, workers=1)


def loader_stacked(drive: Path) -> Epoch:
    """The same with pictures stacked to one array per stream and batch, which the other sides do not do."""
    return loader(drive, vary="list")


def loader_unchecked(drive: Path) -> Epoch:
    """HyperframeLoader that compares no checksum, like bare preads and mcap."""
    return loader(drive, verify="none")


def frame_wise(drive: Path) -> Epoch:
    """Every frame by a read of its own, all frames of all streams in one random order; one thread, each CRC-32."""
    reader = tl.open_recording(drive)

    def epoch(seed: int) -> int:
        frames = [(name, i) for name in reader.streams for i in range(reader.count(name))]
        total = 0
        for n in np.random.default_rng(seed).permutation(len(frames)):
            name, i = frames[n]
            total += reader.read_at_index(name, i).array().nbytes
        return total

    return epoch


def dataset_in_workers(drive: Path) -> Epoch:
    """WindowDataset in DataLoader workers, windows in random order, batches through shared memory; each CRC-32."""
    return _in_workers(WindowDataset(drive), _clip_tensors)


def mcap_in_workers(drive: Path) -> Epoch:
    """`mcap` (Python) in DataLoader workers, windows in random order, batches through shared memory; no checksums."""
    return _in_workers(McapWindows(drive.with_suffix(".mcap"), len(tl.WindowDataset(drive))), list)


class McapWindows(Dataset[Window]):
    """A window is a loop over the messages of its time, as mcap's documentation shows it; one reader per worker."""

    def __init__(self, path: Path, count: int) -> None:
        self._path = path
        self._count = count
        self._reader: SeekingReader | None = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, k: int) -> Window:
        if self._reader is None:
            self._reader = SeekingReader(open(self._path, "rb"))  # noqa: SIM115  lives as long as the worker
        found: Window = {s.name: [] for s in STREAMS}
        samples = []
        for _, channel, message in self._reader.iter_messages(start_time=k * WINDOW_NS, end_time=(k + 1) * WINDOW_NS):
            if channel.topic == "imu":
                samples.append(message.data)
                continue
            stream = _BY_NAME[channel.topic]
            array = np.frombuffer(message.data, stream.dtype).reshape(stream.shape)
            found[channel.topic].append(torch.from_numpy(array))
        found["imu"].append(torch.from_numpy(np.frombuffer(b"".join(samples), "<f4").reshape(-1, 6)))
        return found


_BY_NAME = {s.name: s for s in STREAMS}


def _clip_tensors(clips: list[Clip]) -> list[Window]:
    return [
        {name: [torch.from_numpy(value) for value in values] for name, values in clip.values.items()} for clip in clips
    ]


def _in_workers(dataset: Dataset[Any], collate: Callable[[list[Any]], list[Window]]) -> Epoch:
    order = torch.Generator()
    batches: DataLoader[Any] = DataLoader(
        dataset,
        BATCH_SIZE,
        shuffle=True,
        generator=order,
        num_workers=WORKERS,
        collate_fn=collate,
        persistent_workers=True,
    )

    def epoch(seed: int) -> int:
        order.manual_seed(seed)
        return sum(tensor.nbytes for batch in batches for tensor in _tensors(batch))

    return epoch


def _tensors(batch: list[Window]) -> Iterator[torch.Tensor]:
    for window in batch:
        for frames in window.values():
            yield from frames


def _bytes_of(values: Any) -> int:
    """Bytes of a stream in a batch: an array where all shapes agree, else lists of arrays."""
    return values.nbytes if isinstance(values, np.ndarray) else sum(frame.nbytes for row in values for frame in row)


SIDES: dict[str, Callable[[Path], Epoch]] = {
    "pread": pread,
    "pread, fresh memory": pread_kept,
    "pread + CRC-32, kept memory": pread_checked,
    "pread + CRC-32, one thread": pread_checked_one_thread,
    "HyperframeLoader": loader,
    "HyperframeLoader, one thread": loader_one_thread,
    "HyperframeLoader, stacked": loader_stacked,
    "HyperframeLoader, no checksums": loader_unchecked,
    "frame by frame, one thread": frame_wise,
    "WindowDataset in workers": dataset_in_workers,
    "mcap in workers": mcap_in_workers,
}
