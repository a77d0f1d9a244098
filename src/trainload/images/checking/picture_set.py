"""Checks picture files whole: header region, every block, the CRC of the file, and that volumes make one set.

In a file with the extension every bit is covered. A genuine file has no checksum over its header: most fields follow
from others, but is_training, val_set_prep, a larger num_classes, max_pic_area (without `decode_all`) and, above LV0 or
in volumes, compression_ratio can change unseen there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.errors import FormatError
from trainload.formats.findings import Finding, Report
from trainload.formats.progress import Progress
from trainload.images.checking.block_checker import BlockChecker, BlockResult, Decoder
from trainload.images.checking.region import Region, check_region
from trainload.images.files.extension import Extension
from trainload.images.files.volumes import check_same_set, check_volume_set
from trainload.images.format import rules
from trainload.images.format.dts import BLOCK_SIZE, IMAGE_HEADER_BYTES, DtsHeader
from trainload.storage.location import open_source, pinned

_BLOCKS_PER_TASK = 4
_MIN_BLOCKS_PER_JOB = 8  # below this a process costs more than it saves


def verify_volumes(
    paths: Sequence[str],
    *,
    decode: Decoder | None = None,
    decode_all: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Check the files of a picture set and how they fit together; damage is in the Report, not raised.

    decode: names the damaged pictures of damaged blocks; with `decode_all` every picture is decoded. jobs: processes.
    progress: counts blocks. Memory: 16 MB and the extension per process. Raises OSError where the system cannot read.
    """
    paths = [pinned(path) for path in paths]
    report = Report(", ".join(paths))
    regions = [_read_region(path) for path in paths]
    report.findings += _check_set(paths, regions)
    counts = [_count_blocks(region) for region in regions]
    totals = {
        "bytes": sum(region.file_size for region in regions),
        "volumes": len(paths),
        "blocks": 0,
        "samples": 0,
        "decoded": 0,
    }
    for path, region, count in zip(paths, regions, counts):
        checker = BlockChecker(path, region.header, region.block_crcs, decode, decode_all)
        results = []
        for result in _check_blocks(checker, count, jobs):
            results.append(result)
            totals["blocks"] += 1
            totals["samples"] += result.num_pics or 0
            totals["decoded"] += result.decoded
            if progress is not None:
                progress(totals["blocks"], sum(counts))
        report.findings += region.findings
        report.findings += _conclude(path, region, results, decode_all=decode_all)
    report.checked |= totals
    none = "none: a genuine file carries none"
    report.checked["header_crc"] = "checked" if all(region.has_extension for region in regions) else none
    report.checked["block_crcs"] = "checked" if all(region.block_crcs is not None for region in regions) else none
    return report


def _read_region(path: str) -> Region:
    with open_source(path) as source:
        return check_region(source)


def _check_set(paths: Sequence[str], regions: Sequence[Region]) -> list[Finding]:
    """Whether several files are the volumes of one set; one volume alone may be checked by itself."""
    headers = [region.header for region in regions if region.header is not None]
    extensions = [region.extension for region in regions if region.extension is not None]
    if len(headers) < len(paths) or len(paths) == 1:
        return []
    try:
        check_volume_set(headers, paths)
        if len(extensions) == len(paths):
            check_same_set(extensions, paths)
    except FormatError as error:
        return [Finding.from_error(error)]
    return []


def _count_blocks(region: Region) -> int:
    """Blocks to check: those that the header counts; with a damaged header those whose CRCs and bytes are there."""
    if region.header is not None:
        return region.header.num_blocks
    if region.block_crcs is None:
        return 0
    whole = max(0, region.file_size - IMAGE_HEADER_BYTES) // BLOCK_SIZE
    return min(whole, len(region.block_crcs))


def _check_blocks(checker: BlockChecker, num_blocks: int, jobs: int) -> Iterator[BlockResult]:
    """The results in block order."""
    least, chunk = (1, 1) if checker.decode_all else (_MIN_BLOCKS_PER_JOB, _BLOCKS_PER_TASK)
    jobs = min(jobs, num_blocks // least)
    if jobs <= 1:
        yield from map(checker, range(num_blocks))
        return
    from concurrent.futures import ProcessPoolExecutor  # 30 ms that opening a file need not pay

    with ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(jobs))
        stack.callback(pool.shutdown, cancel_futures=True)
        yield from pool.map(checker, range(num_blocks), chunksize=chunk)


def _conclude(path: str, region: Region, results: list[BlockResult], *, decode_all: bool) -> Iterator[Finding]:
    """What follows from the blocks of one file together."""
    header, crc = region.header, 0
    for result in results:
        crc = isal_zlib.crc32_combine(crc, result.crc or 0, BLOCK_SIZE)
    wrong_crc = header is not None and crc != header.crc_code
    first = _first_samples(region, results)
    for result in results:
        proven = region.block_crcs is not None and result.crc is not None and not result.damaged
        found = [*_damage_of(path, region, result, first), *result.findings]
        if proven and region.findings:  # a block that its CRC proves does not fit a damaged header: not its fault
            found = [finding for finding in found if finding.sample is not None]
        for finding in found + (result.suspicions if wrong_crc and not proven else []):
            yield _name_sample(finding, first[result.k], region.extension)
    if header is None:
        return
    if wrong_crc:
        yield Finding.of(
            rules.BLOCKS_CRC,
            "crc_code",
            header.header_bytes,
            f"{crc:#010x}",
            f"{header.crc_code:#010x}",
            path,
            end=header.total_bytes,
        )
    counts = [result.num_pics for result in results if result.num_pics is not None]
    if len(counts) == len(results):
        yield from _check_counts(path, region, header, counts)
        yield from _check_table(path, region, header, results)
        if not region.has_extension:
            yield from _check_genuine_header(path, header, results, counts, decode_all=decode_all)


def _first_samples(region: Region, results: list[BlockResult]) -> list[int]:
    """The first sample of each block, closed by the number of samples; a damaged block's count from the extension."""
    try:
        stated = None if region.extension is None else region.extension.block_counts()
    except FormatError:  # reported with the region
        stated = None
    first = [0]
    for result in results:
        spare = 0 if stated is None else int(stated[result.k])
        first.append(first[-1] + (spare if result.num_pics is None else result.num_pics))
    return first


def _damage_of(path: str, region: Region, result: BlockResult, first: list[int]) -> Iterator[Finding]:
    """Findings for a block whose CRC is wrong: the block, and each picture that the file carries another CRC for."""
    if not result.damaged or region.block_crcs is None or result.crc is None:
        return
    offset, begin, end = IMAGE_HEADER_BYTES + result.k * BLOCK_SIZE, first[result.k], first[result.k + 1]
    samples = f" (samples {begin:,} to {end - 1:,})" if end > begin else ""
    yield Finding.of(
        rules.BLOCK_CRC,
        f"block {result.k}{samples}",
        offset,
        f"{result.crc:#010x}",
        f"{int(region.block_crcs[result.k]):#010x}",
        path,
        end=offset + BLOCK_SIZE,
        block=result.k,
    )
    crcs = None if region.extension is None else _picture_crcs(region.extension)
    if crcs is None or result.header is None:
        return
    for n, (found, expected) in enumerate(zip(result.picture_crcs, crcs[begin:end].tolist())):
        if found != expected:
            start = offset + int(result.header.offsets[n])
            yield Finding.of(
                rules.PICTURE_CRC,
                f"picture {n}",
                start,
                f"{found:#010x}",
                f"{expected:#010x}",
                path,
                end=start + int(result.header.sizes[n]),
                block=result.k,
                sample=n,
            )


def _picture_crcs(extension: Extension) -> NDArray[np.uint32] | None:
    try:
        return extension.picture_crcs()
    except FormatError:  # reported with the region
        return None


def _name_sample(finding: Finding, first: int, extension: Extension | None) -> Finding:
    """The finding with its sample counted from the start of the file, and the path that the sample came from."""
    if finding.sample is None:
        return finding
    n = first + finding.sample
    try:
        source = "" if extension is None else extension.source_path(n)
    except (FormatError, IndexError):  # the paths are damaged too, and reported
        source = ""
    return dataclasses.replace(finding, sample=n, source=source)


def _check_counts(path: str, region: Region, header: DtsHeader, counts: list[int]) -> Iterator[Finding]:
    total = sum(counts)
    if total != header.num_samples:
        yield Finding.of(
            rules.NUM_SAMPLES,
            "num_samples",
            52,
            f"{header.num_samples:,}",
            f"{total:,}",
            path,
        )
    try:
        if region.extension is not None:
            region.extension.check_block_counts(np.array(counts, np.int64))
    except FormatError as error:
        yield Finding.from_error(error)


def _check_table(path: str, region: Region, header: DtsHeader, results: list[BlockResult]) -> Iterator[Finding]:
    """The first block whose header the table of samples contradicts, or what is wrong with the table itself."""
    try:
        stored = None if region.extension is None else region.extension.sample_table()
        if stored is None:
            return
        table, labels = stored
        counts = np.array([result.num_pics for result in results], np.int64)
        offsets = table.offsets(counts, header, path=path)
    except FormatError as error:
        yield Finding.from_error(error)
        return
    first = 0
    for result, count in zip(results, counts.tolist()):
        rows, block = slice(first, first + count), result.header
        first += count
        if block is None:
            continue
        for field, stated, true in (
            ("size", table.sizes[rows], block.sizes),
            ("offset", offsets[rows], block.offsets),
            ("label", labels[rows], block.labels),
        ):
            wrong = np.flatnonzero(stated != true)
            if len(wrong):
                n = int(wrong[0])
                yield Finding.of(
                    rules.TABLE_BLOCKS,
                    f"TABL {field}",
                    None,
                    int(stated[n]),
                    int(true[n]),
                    path,
                    block=result.k,
                    sample=n,
                )
                return


def _check_genuine_header(
    path: str, header: DtsHeader, results: list[BlockResult], counts: list[int], *, decode_all: bool
) -> Iterator[Finding]:
    """Header fields that no checksum covers, held to what the blocks say."""
    rule = rules.HEADER_BLOCKS
    most = {max(counts, default=0), max(counts[:-1], default=0)}  # genuine LV1-3 files leave the last block out
    picture_bytes = sum(int(r.header.sizes.sum(dtype=np.int64)) for r in results if r.header is not None)
    ratio = header.compression_ratio
    if header.compress_level == 0 and header.num_volumes == 1 and picture_bytes:
        ratio = float(np.float32(header.total_bytes / picture_bytes))
    whole = header.total_blocks == header.num_blocks
    for field, offset, good, found, expected in (
        ("val_set_prep", 24, header.val_set_prep in (0, 1), header.val_set_prep, "0 or 1"),
        ("num_volumes", 56, (header.num_volumes == 1) == whole, header.num_volumes, "1 where all blocks are here"),
        ("max_pic_per_block", 108, header.max_pic_per_block in most, header.max_pic_per_block, sorted(most)),
        ("compression_ratio", 112, header.compression_ratio == ratio, header.compression_ratio, ratio),
        ("normalize_mean", 116, header.to_bytes()[116:140] == bytes(24), header.normalize_mean, "all zero bytes"),
    ):
        if not good:
            yield Finding.of(rule, field, offset, found, expected, path)
    largest = max((result.max_area for result in results), default=0)
    if decode_all and header.compress_level > 0 and header.max_pic_area != largest:
        yield Finding.of(rule, "max_pic_area", 104, f"{header.max_pic_area:,}", f"{largest:,}", path)
