"""Simulates an epoch of 1 to 1,024 nodes that read one set from an object store. Nothing is read; no network is used.

For the order "group" as it is, with a cache that was warmed, and for "lanes": bytes over the network, GETs, memory,
what opening costs, how long the slowest reads keep all ranks waiting; and how well the orders mix classes.

    python benchmarks/scale.py            # the tables of docs/many-nodes.md
    python benchmarks/scale.py --json     # the same numbers

What is counted exactly, by the law of docs/order.md: groups, cuts and lanes. What is assumed: the numbers
in `Model`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainload.images.format.dts import BLOCK_SIZE
from trainload.images.loading.layout import MAX_GAP_BYTES
from trainload.images.loading.planning import LANE_SLACK
from trainload.images.loading.quality import shuffle_quality
from trainload.running.lanes import deal_lanes
from trainload.running.order import Cut, OrderRule, cut_order, epoch_order

Rows = list[dict[str, Any]]

GROUP_BLOCKS = 8
NODES = (1, 8, 64, 1024)


@dataclass(frozen=True)
class Model:
    """What is assumed of the machines and the store."""

    gpus: int = 8  # of a node, a rank each
    batch: int = 64  # of a rank
    pictures_per_second: float = 2500.0  # that a GPU takes
    cache_bytes: float = 2e12  # of a node
    get_seconds: float = 0.03  # until the first byte
    get_bytes_per_second: float = 100e6  # of one connection
    get_spread: float = 0.4  # sigma of the lognormal factor on a GET
    slow_share: float = 0.001  # of GETs that take slow_factor times as long
    slow_factor: float = 10.0
    io_workers: int = 8  # of a rank
    opening_gets: int = 32  # in flight where block headers are read


class ImageSet(NamedTuple):
    name: str
    pictures: int
    picture_bytes: int  # mean


SETS = (
    ImageSet("ImageNet-1k", 1_281_167, 115_000),
    ImageSet("ImageNet-21k", 13_153_500, 100_000),
    ImageSet("400 M", 400_000_000, 45_000),
)


def block_counts(images: ImageSet, seed: int = 0) -> NDArray[np.int64]:
    """Pictures in each block: sums of sizes with a spread of 45 % of the mean, as photographs have."""
    mean = BLOCK_SIZE / images.picture_bytes
    blocks = round(images.pictures / mean)
    counts = np.random.default_rng(seed).normal(mean, 0.45 * np.sqrt(mean), blocks)
    return np.maximum(1, counts.round()).astype(np.int64)


class Parts(NamedTuple):
    """How a rank reads under "group": of each block only its own pictures, neighbours together over small gaps."""

    gets: float  # for each picture
    bytes_read: float  # for each byte that is needed


def parts_of_group(counts: NDArray[np.int64], images: ImageSet, nodes: int, model: Model) -> Parts:
    """Counted for a rank in the middle; its pictures are taken as random ones of each group, as they are."""
    rows = counts[: len(counts) // GROUP_BLOCKS * GROUP_BLOCKS].reshape(-1, GROUP_BLOCKS).sum(axis=1)
    ends = np.cumsum(rows)
    ranks = nodes * model.gpus
    step, first = model.batch * ranks, ranks // 2 * model.batch

    def taken(position: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of the positions before this one, those of the rank."""
        return position // step * model.batch + np.clip(position % step - first, 0, model.batch)

    own = taken(ends) - taken(ends - rows)
    part = own / rows
    most_between = MAX_GAP_BYTES // images.picture_bytes  # pictures of others that are read along
    starts = (1 - part) ** (most_between + 1)
    along = sum((1 - part) ** n * part * n for n in range(1, most_between + 1)) if most_between else 0 * part
    weight = own / own.sum()
    return Parts(float((starts * weight).sum()), float(((1 + along) * weight).sum()))


def shares_of_lanes(counts: NDArray[np.int64], nodes: int, model: Model) -> tuple[float, float]:
    """Which part of all blocks the node that needs most has any picture of, and the mean of all nodes."""
    lanes = nodes * model.gpus
    numbers = np.arange(len(counts))
    if counts.sum() < 20e6:
        parts = deal_lanes(0, lanes, np.repeat(numbers, counts))
        pairs = np.unique(parts.lane % nodes * len(counts) + parts.block)
        blocks = np.bincount(pairs // len(counts), minlength=nodes)
    else:  # one more of each lane, as about so many are in another lane too
        blocks = np.bincount(numbers % nodes, minlength=nodes) + model.gpus
    return float(blocks.max() / len(counts)), float(blocks.mean() / len(counts))


def waiting(gets: float, get_bytes: float, ranks: int, per_block: float, model: Model) -> float:
    """The part of the time in which all ranks wait for the slowest of them, with so many GETs of a size per picture.

    A rank fills one arena of GROUP_BLOCKS blocks while it consumes the other; every step waits for the last rank.
    """
    rng = np.random.default_rng(1)
    per_loop = max(1, round(GROUP_BLOCKS * per_block * gets / model.io_workers))
    rounds = max(4, 40_000 // ranks // per_loop)
    whole = model.get_seconds + get_bytes / model.get_bytes_per_second
    slowest = np.zeros(rounds)
    for n in range(rounds):
        fill = np.zeros((ranks, model.io_workers))
        for _ in range(per_loop):
            took = whole * rng.lognormal(0, model.get_spread, fill.shape)
            fill += np.where(rng.random(fill.shape) < model.slow_share, took * model.slow_factor, took)
        slowest[n] = fill.max()
    consumed = GROUP_BLOCKS * per_block / model.pictures_per_second
    waits = np.maximum(0, slowest - consumed).mean()
    return float(waits / (waits + consumed))


def rows_of(images: ImageSet, model: Model) -> Rows:
    """One row for each number of nodes and each order."""
    counts = block_counts(images)
    set_bytes, per_block = len(counts) * BLOCK_SIZE, float(counts.mean())
    rows: Rows = []
    for nodes in NODES:
        ranks = nodes * model.gpus
        kept = min(1.0, model.cache_bytes / set_bytes)
        parts = parts_of_group(counts, images, nodes, model)
        read = parts.bytes_read * set_bytes / nodes
        gets = parts.gets * images.pictures / nodes
        waits = waiting(parts.gets, images.picture_bytes * parts.bytes_read / parts.gets, ranks, per_block, model)
        buffers = 2 * GROUP_BLOCKS * BLOCK_SIZE * model.gpus
        row = {"set": images.name, "nodes": nodes, "buffers_bytes": buffers}
        rows.append(row | _epochs("group", read, read, gets, waits, nodes, set_bytes))
        warmed = kept * set_bytes + (1 - kept) * read
        gets_warm = kept * len(counts) + (1 - kept) * gets
        after = None if kept == 1 else waits  # those of the part that is not kept: at most
        rows.append(row | _epochs("group, warmed", warmed, (1 - kept) * read, gets_warm, after, nodes, set_bytes))
        if ranks <= len(counts):
            most, mean = shares_of_lanes(counts, nodes, model)
            row["buffers_bytes"] = 2 * (GROUP_BLOCKS + LANE_SLACK) * BLOCK_SIZE * model.gpus
            later = most * set_bytes - min(most * set_bytes, model.cache_bytes)
            waits = waiting(mean * nodes / per_block, BLOCK_SIZE, ranks, per_block, model)
            lanes = _epochs("lanes", most * set_bytes, later, most * len(counts), waits, nodes, set_bytes)
            rows.append(row | lanes | {"copies": mean * nodes})
    return rows


def _epochs(
    order: str, first: float, later: float, gets: float, waits: float | None, nodes: int, set_bytes: float
) -> dict[str, Any]:
    return {
        "order": order,
        "first_bytes": first,
        "later_bytes": later,
        "first_gets": round(gets),
        "copies": first * nodes / set_bytes,
        "waiting_share": waits,
    }


def opening(images: ImageSet, model: Model) -> dict[str, Any]:
    """What a node reads to open a set: with the section TABL, and from the headers of all blocks."""
    counts = block_counts(images)
    headers = int((np.ceil((32 + 12 * counts) / 4096) * 4096).sum())
    return {
        "set": images.name,
        "blocks": len(counts),
        "table_gets": 4,
        "table_bytes": round(images.pictures * 3e6 / 1.28e6),
        "header_gets": len(counts),
        "header_bytes": headers,
        "header_seconds": len(counts) / model.opening_gets * model.get_seconds,
    }


def quality(batch: int = 256) -> Rows:
    """Classes in a batch of a set of ImageNet-1k's size that is sorted by class, over those of a uniform shuffle."""
    counts = block_counts(SETS[0])
    blocks = np.repeat(np.arange(len(counts)), counts)
    labels = np.arange(len(blocks)) * 1000 // len(blocks)
    rows: Rows = []
    rules = [OrderRule(0, "none", 8), OrderRule(0, "group", 8), OrderRule(0, "group", 64), OrderRule(0, "full", 8)]
    asked = ((8, 8), (64, 1), (64, 8), (512, 8))
    rules += [OrderRule(0, "lanes", group_blocks, lanes=lanes) for lanes, group_blocks in asked]
    ideal = shuffle_quality(labels, batch).ideal
    for rule in rules:
        found = labels[epoch_order(rule, 0, np.arange(len(blocks)), blocks)]
        row: dict[str, Any] = {"order": rule.shuffle, "group_blocks": rule.group_blocks, "lanes": rule.lanes}
        row["batch"] = shuffle_quality(found, batch).ratio
        for ranks in (8, 64):
            row[f"step of {ranks}"] = shuffle_quality(found, ranks * batch).ratio
            if rule.lanes % ranks == 0:
                share = cut_order(Cut(batch, 0, ranks), len(found), in_turn=int(rule.lanes > 0))
                row[f"rank of {ranks}"] = shuffle_quality(found[share.positions], batch).classes_per_batch / ideal
        rows.append(row)
    return rows


def _size(count: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return "0" if count < 1e3 else f"{count / 1e3:.3g} KB"


def _print_tables(rows: Rows, opened: Rows, mixed: Rows) -> None:
    print("| set | nodes | order | epoch 1 | GETs | copies | later epochs | buffers | waiting, epoch 1 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        waits = "" if row["waiting_share"] is None else f"{row['waiting_share']:.0%}"
        print(
            f"| {row['set']} | {row['nodes']:,} | {row['order']} | {_size(row['first_bytes'])} | {row['first_gets']:,} "
            f"| {row['copies']:.2f} | {_size(row['later_bytes'])} | {_size(row['buffers_bytes'])} | {waits} |"
        )
    print("\n| set | blocks | with `TABL` | from block headers |\n|---|---|---|---|")
    for row in opened:
        print(
            f"| {row['set']} | {row['blocks']:,} | {row['table_gets']} GETs, {_size(row['table_bytes'])} | "
            f"{row['header_gets']:,} GETs, {_size(row['header_bytes'])}, {row['header_seconds']:.1f} s |"
        )
    names = ["batch", "rank of 8", "step of 8", "rank of 64", "step of 64"]
    print(f"\n| order | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for row in mixed:
        lanes = f", `lanes={row['lanes']}`" if row["lanes"] else ""
        groups = "" if row["order"] in ("none", "full") else f", `group_blocks={row['group_blocks']}`"
        cells = [f"{row[name]:.3f}" if name in row else "" for name in names]
        print(f"| `{row['order']}`{lanes}{groups} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    model = Model()
    rows = [row for images in SETS for row in rows_of(images, model)]
    opened = [opening(images, model) for images in SETS]
    mixed = quality()
    if asked.json:
        print(json.dumps({"model": asdict(model), "epochs": rows, "opening": opened, "quality": mixed}, indent=1))
    else:
        _print_tables(rows, opened, mixed)


if __name__ == "__main__":
    main()
