"""CPU time of each operation on 224 x 224 pictures, and of resizing to that, in the core and in Pillow.

usage: ops.py [--pictures ../shared/data/imagenet-sample] [--count 64] [--rounds 5]   writes bench-out/ops.json

One process per side. The core runs whole pipelines on decoded pictures; what an empty list of operations takes (one
copy into the batch) is subtracted; a resize, from 500 x 375 pictures, does that copy on its way, so it stands whole.
Pillow's side carries out the plans of the same samples, without drawing numbers.
Best of the rounds, microseconds of process time per picture.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

sys.path.append(str(Path(__file__).parent.parent / "tests/helpers"))  # what Pillow does is written down once

import pillow_oracle
import trainload as tl
from machine import machine
from ops_plan import Change, Scale, plan_sample
from trainload import _core
from trainload.images.ops.split import split_ops

SIDE = 224
LARGE = 500, 375  # what is resized
FILTERS: tuple[Any, ...] = ("bilinear", "bicubic", "lanczos", "box", "nearest")
CASES: dict[str, list[Any]] = {
    "RandomHorizontalFlip(1.0)": [tl.RandomHorizontalFlip(1.0)],
    "ColorJitter(brightness=0.4)": [tl.ColorJitter(brightness=0.4)],
    "ColorJitter(contrast=0.4)": [tl.ColorJitter(contrast=0.4)],
    "ColorJitter(saturation=0.4)": [tl.ColorJitter(saturation=0.4)],
    "ColorJitter(hue=0.1)": [tl.ColorJitter(hue=0.1)],
    "ColorJitter(0.4, 0.4, 0.4, 0.1)": [tl.ColorJitter(0.4, 0.4, 0.4, 0.1)],
    "RandomGrayscale(1.0)": [tl.RandomGrayscale(1.0)],
    "RandomAutocontrast(1.0)": [tl.RandomAutocontrast(1.0)],
    "GaussianNoise()": [tl.GaussianNoise()],
    "GaussianBlur(3)": [tl.GaussianBlur(3)],
    "GaussianBlur(23)": [tl.GaussianBlur(23)],
    "RandomErasing(1.0)": [tl.RandomErasing(1.0)],
    "RandomRotation(30)": [tl.RandomRotation(30)],
    "RandomRotation(30, 'bilinear')": [tl.RandomRotation(30, "bilinear")],
    "RandAugment()": [tl.RandAugment()],
    "RandAugment(interpolation='bilinear')": [tl.RandAugment(interpolation="bilinear")],
    "AutoAugment()": [tl.AutoAugment()],
    "Normalize.imagenet()": [tl.Normalize.imagenet()],
    "Pad(16), RandomCrop(224)": [tl.Pad(16), tl.RandomCrop(SIDE)],
}
RESIZES: dict[str, list[Any]] = {
    f"RandomResizedCrop(224, interpolation='{name}')": [tl.RandomResizedCrop(SIDE, interpolation=name)]
    for name in FILTERS
} | {"RandomScale(), CenterCrop(224)": [tl.RandomScale(), tl.CenterCrop(SIDE)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, default=Path("../shared/data/imagenet-sample"))
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    parser.add_argument("--side", choices=["core", "pillow"], help="measure this side only and print its JSON")
    args = parser.parse_args()
    if args.side:
        measure = measure_core if args.side == "core" else measure_pillow
        pictures = load_pictures(args.pictures, args.count, (SIDE, SIDE))
        times = {name: measure(ops, pictures, args.rounds) for name, ops in CASES.items()}
        pictures = load_pictures(args.pictures, args.count, LARGE)
        times |= {name: measure(ops, pictures, args.rounds) for name, ops in RESIZES.items()}
        print(json.dumps(times))
        return
    sides = {side: json.loads(run_side(side)) for side in ("core", "pillow")}
    report = {"machine": machine(), "side": SIDE, "pictures": args.count, "microseconds": sides}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "ops.json").write_text(json.dumps(report, indent=1) + "\n")
    for name, pillow in sides["pillow"].items():
        print(f"{name:50} core {sides['core'][name]:7.0f} us   Pillow {'-' if pillow is None else f'{pillow:7.0f} us'}")


def run_side(side: str) -> str:
    """The JSON of one side, measured in a process of its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--side", side]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def load_pictures(folder: Path, count: int, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Real pictures, squeezed to (width, height): uint8 [count, height, width, 3]."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))[:count]
    if not paths:
        raise SystemExit(f"no JPEG under {folder}: give --pictures")
    return np.stack([np.asarray(Image.open(path).convert("RGB").resize(size)) for path in paths])


def measure_core(ops: list[Any], pictures: NDArray[np.uint8], rounds: int) -> float:
    """What the operations add to an empty pipeline with the same output; all that they take where they resize."""
    out = "float32" if any(isinstance(op, tl.Normalize) for op in ops) else "uint8"
    taken = core_microseconds(ops, out, pictures, rounds)
    return taken if is_resized(pictures) else taken - core_microseconds([], "uint8", pictures, rounds)


def is_resized(pictures: NDArray[np.uint8]) -> bool:
    return pictures.shape[1:3] != (SIDE, SIDE)


def core_microseconds(ops: list[Any], out: Any, pictures: NDArray[np.uint8], rounds: int) -> float:
    split = split_ops(ops)
    layout = "NHWC" if out == "uint8" else "NCHW"
    pipeline = _core.Pipeline(split.specs(out), SIDE, SIDE, out, layout, split.mean, split.std, "off")
    batch = np.empty((len(pictures), *((SIDE, SIDE, 3) if layout == "NHWC" else (3, SIDE, SIDE))), out)
    rows, scratch = np.arange(len(pictures), dtype=np.uint64), _core.Scratch()
    return microseconds(lambda: pipeline.run_pixels(scratch, pictures, rows, rows, 0, 0, batch), rounds, len(pictures))


def measure_pillow(ops: list[Any], pictures: NDArray[np.uint8], rounds: int) -> float | None:
    """The same steps by Pillow; None where Pillow has no such operation."""
    if not isinstance(
        ops[0],
        tl.ColorJitter
        | tl.RandomGrayscale
        | tl.RandomAutocontrast
        | tl.RandomResizedCrop
        | tl.GaussianBlur
        | tl.RandomRotation
        | tl.RandAugment
        | tl.AutoAugment
        | tl.RandomHorizontalFlip,
    ):
        return None
    images = [Image.fromarray(picture) for picture in pictures]
    width, height = images[0].size
    plans = [
        plan_sample([(0, ops[0])], width=width, height=height, seed=0, epoch=0, sample=sample)
        for sample in range(len(images))
    ]
    interpolation = getattr(ops[0], "interpolation", "nearest")

    def work() -> None:
        for image, plan in zip(images, plans):
            for step in plan:
                image = by_pillow(step, image, interpolation)

    return microseconds(work, rounds, len(images))


def by_pillow(step: Any, image: Image.Image, interpolation: str) -> Image.Image:
    """One step of a plan. Pillow's blur is three box blurs of the same sigma, not the cut Gaussian."""
    if isinstance(step, Scale):
        box = (step.left, step.top, step.left + step.width, step.top + step.height)
        return image.resize((step.to_width, step.to_height), pillow_oracle.FILTERS[step.interpolation], box=box)
    if not isinstance(step, Change):
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if step.name == "GaussianBlur":
        return image.filter(ImageFilter.GaussianBlur(step.amount))
    if step.name == "Rotation":
        return pillow_oracle.augment(image, "Rotate", step.amount, interpolation)
    if step.name == "Grayscale":
        return image.convert("L").convert("RGB")
    if step.name.startswith("augment."):
        return pillow_oracle.augment(image, step.name.removeprefix("augment."), step.amount, interpolation)
    return pillow_oracle.JITTERS[step.name](image, step.amount)


def microseconds(work: Callable[[], object], rounds: int, pictures: int) -> float:
    """Process time per picture, the best of the rounds after one to warm up."""
    work()
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return round(min(times) / pictures * 1e6, 1)


if __name__ == "__main__":
    main()
