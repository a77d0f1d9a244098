"""trainload: the class folder, or a DTS file of the level that --level names."""

from __future__ import annotations

import argparse
import sys

import trainload as tl
from harness import BATCH_SIZE, arguments, measure, once

own = argparse.ArgumentParser(add_help=False)
own.add_argument("--level", choices=("folder", "0", "3"), required=True)
own.add_argument("--dct-scale", choices=("off", "auto"), default="off")
mine, sys.argv[1:] = own.parse_known_args()
args = arguments()
path = args.data
if mine.level != "folder":
    level = int(mine.level)
    path = once(args.work / f"lv{level}.dts", lambda out: tl.pack_images(args.data, out, level=level))
ops = [tl.RandomResizedCrop(224), tl.RandomHorizontalFlip()]
if args.kind == "float32":
    ops.append(tl.Normalize.imagenet())
loader = tl.ImageLoader(
    tl.open_images(path), batch_size=BATCH_SIZE, ops=ops, workers=args.threads, out=args.kind, dct_scale=mine.dct_scale
)
name = "trainload, folder" if mine.level == "folder" else f"trainload, DTS LV{mine.level}"
measure(name, lambda: loader, args, lambda batch: len(batch[0]))
