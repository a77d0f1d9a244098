"""What a DTS picture set says about itself, as JSON values: the content of `trainload info`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trainload.images.files.volumes import Volume
from trainload.images.format import dts
from trainload.images.format.dts import BLOCK_SIZE, DtsHeader

if TYPE_CHECKING:
    from trainload.images.reading.dts import DtsReader


def facts_of(ds: DtsReader, volumes: Sequence[Volume]) -> dict[str, Any]:
    """All facts of an open set; costs a pass over its tables, no read of its pictures."""
    header = ds.header
    facts: dict[str, Any] = {
        "format": "DTS pictures",
        "paths": list(ds.paths),
        "dataset": header.dataset_type,
        "split": "train" if header.is_training else "val",
        "level": ds.level,
        "samples": len(ds),
        "classes": header.num_classes,
        "class_names": list(ds.class_names),
        "volumes": header.num_volumes,
        "blocks": ds.num_blocks,
        "bytes": sum(volume.header.total_bytes for volume in volumes),
        "block_header_size": header.block_header_size,
        "max_pic_area": max(h.max_pic_area for h in ds.headers),
        "max_pic_per_block": max(h.max_pic_per_block for h in ds.headers),
        "compression_ratio": [round(h.compression_ratio, 6) for h in ds.headers],
        "crc": [f"{h.crc_code:08x}" for h in ds.headers],
        "headers": [header_facts(h) for h in ds.headers],
    }
    return facts | _picture_facts(ds) | _extension_facts(volumes)


def header_facts(header: DtsHeader) -> dict[str, Any]:
    """Every field of a header by its name in docs/spec/dts.md, in file order, as JSON values."""
    values = {"magic": dts.MAGIC.decode(), "version": dts.VERSION} | dataclasses.asdict(header)
    values |= {"is_training": int(header.is_training), "crc_code": f"{header.crc_code:08x}"}
    return {name: list(values[name]) if isinstance(values[name], tuple) else values[name] for name in dts.FIELD_NAMES}


def _picture_facts(ds: DtsReader) -> dict[str, Any]:
    per_class = np.bincount(ds.labels, minlength=ds.header.num_classes)
    facts: dict[str, Any] = {"samples_per_class": per_class.tolist()}
    if not len(ds):
        return facts
    per_block = np.diff(ds.block_first)
    used = np.add.reduceat(-(-ds.sizes // 64) * 64, ds.block_first[:-1][per_block > 0])
    unused = BLOCK_SIZE - ds.header.block_header_size - used
    return facts | {
        "picture_bytes_mean": round(float(ds.sizes.mean())),
        "picture_bytes_smallest": int(ds.sizes.min()),
        "picture_bytes_largest": int(ds.sizes.max()),
        "pictures_per_block_mean": round(float(per_block.mean()), 2),
        "pictures_per_block_least": int(per_block.min()),
        "pictures_per_block_most": int(per_block.max()),
        "unused_bytes_per_block": round(float(unused.mean())),
        "unused_share": round(float(unused.sum()) / (ds.num_blocks * BLOCK_SIZE), 6),
    }


def _extension_facts(volumes: Sequence[Volume]) -> dict[str, Any]:
    first = volumes[0].extension
    if not first.tags:
        return {"extension": None}
    return {
        "extension": list(first.tags),
        "uuid": [volume.extension.uuid() for volume in volumes],
        "parameters": first.parameters(),
    }
