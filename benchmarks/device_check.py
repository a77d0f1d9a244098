"""The torch adapter on a GPU: is every batch whole, do copies overlap with work, does a CUDA graph read right pictures?

usage: device_check.py [--data CLASS_FOLDERS] [--seconds 8]
writes bench-out/device_check.json; exit 1 where a check failed, 2 without a device

Without --data it draws its own pictures. Checks: batches on the device equal the host's, bit for bit, under load, with
fresh and with fixed tensors; a captured graph that reads fixed tensors sees every batch; kept fresh batches stay.
Times: pictures/s to the host, to the device by the station, by pageable `.to(device)`, as uint8 with Normalize on the
device, and beside a model whose steps keep the GPU busy (share of the slower of the two alone: 1.0 is full overlap).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

import trainload as tl
import trainload.torch as tlt
from machine import machine
from trainload.demo.pictures import make_pictures

BATCH_SIZE = 128
OPS = [tl.RandomResizedCrop(224), tl.RandomHorizontalFlip(), tl.Normalize.imagenet()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder of class folders of JPEGs")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each timing runs")
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("device_check: torch sees no CUDA device", file=sys.stderr)
        return 2
    args.out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        data = args.data or Path(work, "pictures")
        if args.data is None:
            make_pictures(data, per_class=80)
        path = Path(work, "set.dts")
        tl.pack_images(data, path, level=3)
        checks = {name: check(path) for name, check in CHECKS.items()}
        report = {
            "machine": machine(),
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "checks": checks,
            "pictures_per_second": _times(path, args.seconds),
        }
        report["beside_a_model"] = _overlap(path, args.seconds)
    (args.out / "device_check.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    return 0 if all(checks.values()) else 1


def _loader(path: Path, **options: Any) -> tlt.ImageLoader:
    return tlt.ImageLoader(path, **{"batch_size": BATCH_SIZE, "ops": OPS, "device": "cuda", "last": "drop", **options})


def _host(path: Path, epoch: int) -> Iterable[Any]:
    loader = tlt.ImageLoader(path, batch_size=BATCH_SIZE, ops=OPS, last="drop")
    loader.set_epoch(epoch)
    return loader


def _keep_busy(milliseconds: float = 5.0) -> None:
    """Work for the current stream, so that copies and kernels run at the same time."""
    torch.cuda._sleep(int(milliseconds * 1.5e6))


def _equal_under_load(path: Path, *, fixed: bool) -> bool:
    loader = _loader(path, fixed_addresses=fixed)
    for epoch in range(3):
        for (images, labels), (expected, classes) in zip(loader, _host(path, epoch), strict=True):
            _keep_busy()
            copy = images.clone()  # queued behind the work: a copy that came too early would be seen here
            if not (torch.equal(copy.cpu(), expected) and torch.equal(labels.cpu(), classes)):
                return False
    return True


def _late_reads_are_right(path: Path) -> bool:
    """Nothing waits for the device: all sums are read at the end."""
    loader = _loader(path, fixed_addresses=True)
    sums = []
    for images, _ in loader:
        _keep_busy(2.0)
        sums.append(images.double().sum())
    expected = [images.double().sum() for images, _ in _host(path, 0)]
    return all(abs(float(a) - float(b)) <= 1e-6 * abs(float(b)) + 1e-3 for a, b in zip(sums, expected, strict=True))


def _graphs_see_every_batch(path: Path) -> bool:
    """One graph per address; each replay must read the batch that lies there now."""
    loader = _loader(path, fixed_addresses=True)
    graphs: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
    for epoch in range(3):
        for (images, _), (expected, _) in zip(loader, _host(path, epoch), strict=True):
            if images.data_ptr() not in graphs:
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                    result = images.float().mean(dim=(1, 2, 3))
                graphs[images.data_ptr()] = graph, result
            graph, result = graphs[images.data_ptr()]
            graph.replay()
            if not torch.allclose(result.cpu(), expected.mean(dim=(1, 2, 3)), atol=1e-4):
                return False
    return len(graphs) == 2


def _kept_batches_stay(path: Path) -> bool:
    kept = [images for images, _ in _loader(path)]
    return all(torch.equal(a.cpu(), b) for a, (b, _) in zip(kept, _host(path, 0), strict=True))


def _normalize_on_device_is_close(path: Path) -> bool:
    loader = _loader(path, normalize_on_device=True)
    return all(float((a.cpu() - b).abs().max()) < 0.01 for (a, _), (b, _) in zip(loader, _host(path, 0), strict=True))


CHECKS: dict[str, Callable[[Path], bool]] = {
    "fresh tensors equal the host's under load": lambda path: _equal_under_load(path, fixed=False),
    "fixed tensors equal the host's under load": lambda path: _equal_under_load(path, fixed=True),
    "fixed tensors are not written too early": _late_reads_are_right,
    "CUDA graphs see every batch": _graphs_see_every_batch,
    "kept batches stay as they are": _kept_batches_stay,
    "Normalize on the device is the host's": _normalize_on_device_is_close,
}


def _rate(
    batches: Callable[[], Iterable[Any]], seconds: float, step: Callable[[torch.Tensor], object] | None = None
) -> float:
    """Pictures per second over whole epochs, after one epoch that is not counted."""
    for _ in batches():
        pass
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for images, _ in batches():
            count += len(images)
            if step is not None:
                step(images)
    torch.cuda.synchronize()
    return round(count / (time.perf_counter() - start), 1)


def _times(path: Path, seconds: float) -> dict[str, float]:
    host = _loader(path, device="cpu")
    station = _loader(path)
    small = _loader(path, normalize_on_device=True, dtype=torch.bfloat16)

    def pageable() -> Iterable[Any]:
        for images, labels in host:
            yield images.to("cuda"), labels.to("cuda")

    return {
        "host float32": _rate(lambda: host, seconds),
        "pageable .to(device)": _rate(pageable, seconds),
        "station float32": _rate(lambda: station, seconds),
        "station uint8, Normalize on the device": _rate(lambda: small, seconds),
    }


def _overlap(path: Path, seconds: float) -> dict[str, float]:
    """Pictures/s of a model alone, of the loader alone, of both together."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 7, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 128, 3),
        torch.nn.ReLU(),
        torch.nn.Conv2d(128, 128, 3),
        torch.nn.AdaptiveAvgPool2d(1),
    )
    model.to("cuda", memory_format=torch.channels_last)  # type: ignore[call-overload]

    def step(images: torch.Tensor) -> None:
        model(images).mean().backward()

    loader = _loader(path)
    images, labels = next(iter(loader))
    alone = _rate(lambda: [(images, labels)] * 20, seconds, step)
    only = _rate(lambda: loader, seconds)
    both = _rate(lambda: loader, seconds, step)
    return {"model": alone, "loader": only, "together": both, "share_of_the_slower": round(both / min(alone, only), 3)}


if __name__ == "__main__":
    sys.exit(main())
