"""The cache of blocks: right bytes whatever lies in it, one download per block, and room that follows from a hash."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainload as tl
from fault_server import FaultServer, serving
from trainload.storage import block_cache, cache_folder, cached
from trainload.storage.block_cache import BlockCache, block_ranks
from trainload.storage.cache_folder import cache_key, cached_objects, clear_object
from trainload.storage.location import Access, Url, open_source

pytest.importorskip("urllib3", reason="the extra trainload[remote] is not installed")
BLOCK = 1000
DATA = random.Random(3).randbytes(40 * BLOCK + 123)
BLOCKS = 41


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_cache, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(cached, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr("trainload.storage.remote.HEAD_BYTES", 0)
    monkeypatch.setattr(block_cache, "_warned", set())


@pytest.fixture
def server() -> FaultServer:
    return FaultServer({"/x": DATA, "/y": DATA[::-1]})


@pytest.fixture
def root(server: FaultServer) -> Iterator[str]:
    with serving(server) as url:
        yield url


def source_of(url: str, folder: Path, cache_bytes: int | None = None) -> cached.CachedSource:
    source = open_source(Url(url, Access(cache=str(folder), cache_bytes=cache_bytes)))
    assert isinstance(source, cached.CachedSource)
    return source


def read_blocks(source: cached.CachedSource) -> None:
    for block in range(BLOCKS):
        part = DATA[block * BLOCK : (block + 1) * BLOCK]
        assert source.read_at(block * BLOCK, len(part)) == part


def gets(server: FaultServer) -> int:
    return sum(method == "GET" for method, _, _ in server.requests)


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("v1/*/*") if path.name.isdecimal() and path.parent.name != "locks")


def test_the_second_epoch_reads_nothing_from_the_network(root: str, server: FaultServer, tmp_path: Path) -> None:
    source = source_of(f"{root}/x", tmp_path)
    read_blocks(source)
    counted = source.take_traffic()
    assert (gets(server), counted.network_bytes, counted.cache_bytes) == (BLOCKS, len(DATA), 0)
    for again in (source, source.clone(), pickle.loads(pickle.dumps(source)), source_of(f"{root}/x", tmp_path)):
        read_blocks(again)
        counted = again.take_traffic()
        assert (counted.network_bytes, counted.cache_bytes) == (0, len(DATA))
    assert gets(server) == BLOCKS
    assert stat_mode(tmp_path / "v1") == 0o700


def stat_mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@settings(max_examples=40, deadline=None)
@given(
    places=st.lists(st.tuples(st.integers(0, len(DATA)), st.integers(0, 5 * BLOCK)), max_size=20),
    budget=st.none() | st.integers(0, len(DATA)),
)
def test_any_reads_through_any_budget_give_the_bytes(
    places: list[tuple[int, int]], budget: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving(FaultServer({"/x": DATA})) as root:
        source = source_of(f"{root}/x", tmp_path_factory.mktemp("cache"), budget)
        stretches = [(at, min(size, len(DATA) - at)) for at, size in places]
        for at, size in stretches:
            assert source.read_at(at, size) == DATA[at : at + size]
        for _ in range(2):
            assert source.read_many(stretches) == [DATA[at : at + size] for at, size in stretches]


def test_any_part_brings_its_block_but_a_look_at_the_first(root: str, server: FaultServer, tmp_path: Path) -> None:
    source = source_of(f"{root}/x", tmp_path)
    assert source.read_at(10, BLOCK // 8 - 1) == DATA[10:][: BLOCK // 8 - 1]
    assert not entries(tmp_path)
    assert source.read_at(5 * BLOCK + 10, 3) == DATA[5 * BLOCK + 10 :][:3]
    assert source.read_at(10, BLOCK // 8) == DATA[10:][: BLOCK // 8]
    assert [path.name for path in entries(tmp_path)] == ["0", "5"]
    before = gets(server)
    assert source.read_at(5 * BLOCK + 10, 1) == DATA[5 * BLOCK + 10 :][:1]
    assert gets(server) == before


def test_many_small_reads_are_one_entry(root: str, server: FaultServer, tmp_path: Path) -> None:
    stretches = [(n * BLOCK, 16) for n in range(BLOCKS)]
    expected = [DATA[at : at + size] for at, size in stretches]
    assert source_of(f"{root}/x", tmp_path).read_many(stretches) == expected
    before = gets(server)
    assert source_of(f"{root}/x", tmp_path).read_many(stretches) == expected
    assert gets(server) == before


def test_a_part_of_the_set_is_hit_in_every_epoch_alike(root: str, server: FaultServer, tmp_path: Path) -> None:
    kept = 17
    for epoch in range(3):
        before = gets(server)
        read_blocks(source_of(f"{root}/x", tmp_path, kept * BLOCK + 7))
        assert gets(server) - before == (BLOCKS if epoch == 0 else BLOCKS - kept)
    assert len(entries(tmp_path)) == kept
    ranks = block_ranks(cache_key(f"{root}/x", source_of(f"{root}/x", tmp_path, kept * BLOCK).etag, len(DATA)), BLOCKS)
    assert {int(path.name) for path in entries(tmp_path)} == set(np.flatnonzero(ranks < kept).tolist())
    source_of(f"{root}/x", tmp_path, 5 * BLOCK)  # less: what is no longer admitted goes
    assert len(entries(tmp_path)) == 5


@given(key=st.text("0123456789abcdef", min_size=64, max_size=64), blocks=st.integers(0, 300))
def test_ranks_are_an_order_of_all_blocks(key: str, blocks: int) -> None:
    assert sorted(block_ranks(key, blocks).tolist()) == list(range(blocks))


@pytest.mark.parametrize("damage", ["flip", "trailer", "short", "empty", "long", "other block", "other object"])
def test_an_entry_that_is_not_what_it_should_be_is_fetched_again(
    damage: str, root: str, server: FaultServer, tmp_path: Path
) -> None:
    source = source_of(f"{root}/x", tmp_path)
    read_blocks(source)
    source.read_at(7 * BLOCK, 10)  # checked once
    entry = next(path for path in entries(tmp_path) if path.name == "7")
    good = entry.read_bytes()
    bad: bytes | bytearray = bytearray(good)
    if damage in ("flip", "trailer"):
        bad = bytearray(good)
        bad[500 if damage == "flip" else BLOCK + 12] ^= 1
    if damage == "other block":
        bad = bytearray(entry.with_name("8").read_bytes())
    if damage == "other object":
        other = source_of(f"{root}/y", tmp_path)
        other.read_at(7 * BLOCK, BLOCK)
        bad = bytearray((tmp_path / "v1" / other._cache.key / "7").read_bytes())
    entry.unlink()
    entry.write_bytes({"short": bad[:-1], "empty": b"", "long": bad + b"x"}.get(damage, bytes(bad)))
    assert source.read_at(7 * BLOCK, 10) == DATA[7 * BLOCK :][:10]
    assert source.read_at(7 * BLOCK, BLOCK) == DATA[7 * BLOCK :][:BLOCK]
    assert entry.read_bytes() == good


def test_another_signature_is_the_same_object() -> None:
    one, two = (cache_key(f"https://h/x.dts?signature={n}", '"e"', 5) for n in range(2))
    assert one == two != cache_key("https://h/x.dts", '"f"', 5)
    assert cache_key("https://h/x?id=1", "Tue", 5) != cache_key("https://h/x?id=2", "Tue", 5)


def test_a_changed_object_has_entries_of_its_own(root: str, server: FaultServer, tmp_path: Path) -> None:
    read_blocks(source_of(f"{root}/x", tmp_path))
    server.objects["/x"] = DATA[::-1]
    assert source_of(f"{root}/x", tmp_path).read_at(0, BLOCK) == DATA[::-1][:BLOCK]
    assert len(cached_objects(tmp_path)) == 2


def epoch_of(url: str, folder: Path, seed: int) -> None:
    source = source_of(url, folder)
    order = list(range(BLOCKS))
    random.Random(seed).shuffle(order)
    for block in order:
        part = DATA[block * BLOCK : (block + 1) * BLOCK]
        assert source.read_at(block * BLOCK, len(part)) == part


def test_eight_processes_on_a_cold_cache_fetch_each_block_once(root: str, server: FaultServer, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=epoch_of, args=(f"{root}/x", tmp_path, seed)) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 8
    counts = Counter(where for method, _, where in server.requests if method == "GET")
    assert len(counts) == BLOCKS and set(counts.values()) == {1}


KILLED = """
import random, sys
from pathlib import Path
sys.path[:0] = {path!r}
from trainload.storage import block_cache, cached, remote
block_cache.BLOCK_BYTES = cached.BLOCK_BYTES = {block}
remote.HEAD_BYTES = 0
from trainload.storage.location import Access, Url, open_source
source = open_source(Url({url!r}, Access(cache={folder!r})))
print("ready", flush=True)
draw = random.Random({seed})
while True:
    source.read_at({block} * draw.randrange({blocks} - 1), {block})
    if draw.random() < 0.05:
        [path.unlink(missing_ok=True) for path in Path({folder!r}).glob("v1/*/[0-9]*") if path.parent.name != "locks"]
"""


@pytest.mark.parametrize("kills", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_while_caching_leave_no_wrong_byte_and_no_stuck_lock(
    kills: int, root: str, server: FaultServer, tmp_path: Path
) -> None:
    draw = random.Random(kills)
    for seed in range(kills):
        code = KILLED.format(
            path=sys.path, block=BLOCK, url=f"{root}/x", folder=str(tmp_path), seed=seed, blocks=BLOCKS
        )
        worker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert worker.stdout is not None and worker.stdout.readline() == b"ready\n"
        time.sleep(draw.uniform(0, 0.05))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
        if seed % 5 == 4:
            started = time.monotonic()
            read_blocks(source_of(f"{root}/x", tmp_path))
            assert time.monotonic() - started < block_cache.LONGEST_WAIT / 2


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_disk_that_takes_no_more_costs_one_warning(
    code: int, root: str, server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(f"{root}/x", tmp_path)

    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(block_cache, "_write_all", fail)
    with pytest.warns(RuntimeWarning, match="keeps nothing more") as caught:
        read_blocks(source)
        read_blocks(source_of(f"{root}/x", tmp_path))
    assert len(caught) == 1
    assert not entries(tmp_path) and not list(tmp_path.glob("v1/*/*.tmp"))


def test_a_part_read_fetches_no_whole_block_that_cannot_be_kept(
    root: str, server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(f"{root}/x", tmp_path)
    monkeypatch.setattr(block_cache, "room", lambda _: (4 * BLOCK, 100 * BLOCK))
    with pytest.warns(RuntimeWarning, match="5% of the disk stays free"):
        assert source.read_at(3 * BLOCK, 10) == DATA[3 * BLOCK : 3 * BLOCK + 10]
    check_that_parts_stay_parts(source)

    monkeypatch.setattr(block_cache, "room", lambda _: (90 * BLOCK, 100 * BLOCK))
    source = source_of(f"{root}/y", tmp_path)
    source.read_at(0, BLOCK)
    for one in cached_objects(tmp_path):
        clear_object(tmp_path, one.key)
    source.read_at(3 * BLOCK, 10)  # finds out
    check_that_parts_stay_parts(source)


def check_that_parts_stay_parts(source: cached.CachedSource) -> None:
    source.take_traffic()
    for _ in range(5):
        source.read_at(5 * BLOCK, 10)
    assert source.take_traffic().network_bytes == 50


def test_a_folder_that_cannot_be_written_is_no_cache(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.warns(RuntimeWarning, match="Read-only"):
        source = source_of(f"{root}/x", tmp_path / "cache")
    read_blocks(source)


def test_a_folder_of_somebody_else_is_refused(root: str, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "v1").symlink_to(tmp_path / "real")
    (tmp_path / "open" / "v1").mkdir(parents=True)
    (tmp_path / "open" / "v1").chmod(0o777)
    for folder in ("link", "open"):
        with pytest.raises(tl.UsageError, match="yours alone"):
            source_of(f"{root}/x", tmp_path / folder)


def test_volumes_agree_on_their_room_whenever_they_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, blocks = 100 * BLOCK, 60

    def room(folder: Path) -> tuple[int, int]:
        return disk - sum(path.stat().st_size for path in entries(tmp_path)), disk

    monkeypatch.setattr(block_cache, "room", room)
    data = memoryview(bytes(BLOCK))
    found = []
    for _ in range(5):
        for name in "ab":
            cache = BlockCache(tmp_path, f"http://h/{name}", "e", blocks * BLOCK, shares=2)
            admitted = [block for block in range(blocks) if cache.admits(block)]
            for block in admitted:
                cache.write(str(block), block, data)
            found.append(len(admitted))
    assert found[:2] * 5 == found and found[0] == 37
    assert room(tmp_path)[0] >= 0.05 * disk


def test_only_other_objects_make_room_the_longest_unused_first(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = 200 * BLOCK
    monkeypatch.setattr(block_cache, "_in_use", set())

    def room(folder: Path) -> tuple[int, int]:
        used = sum(path.stat().st_size for path in entries(tmp_path))
        return disk - used, disk

    monkeypatch.setattr(block_cache, "room", room)
    for n, name in enumerate("abcd"):
        cache = BlockCache(tmp_path, f"http://h/{name}", "e", len(DATA))
        for block in range(BLOCKS):
            part = memoryview(DATA)[block * BLOCK : (block + 1) * BLOCK]
            cache.write(str(block), block, part)
        os.utime(tmp_path / "v1" / cache.key / cache_folder.ABOUT, (1000 + n, 1000 + n))
        block_cache._in_use.clear()
    cache = BlockCache(tmp_path, "http://h/new", "e", len(DATA))
    for block in range(BLOCKS):
        cache.write(str(block), block, memoryview(DATA)[block * BLOCK : (block + 1) * BLOCK])
    kept = {one.url[-1]: one.entries for one in cached_objects(tmp_path)}
    assert kept["w"] == BLOCKS and kept["d"] == kept["c"] == BLOCKS and kept["a"] < BLOCKS
    free, _ = room(tmp_path)
    assert free >= 0.05 * disk - BLOCK
    assert clear_object(tmp_path, cache.key) > 40 * BLOCK
    assert "new" not in {one.url.rpartition("/")[2] for one in cached_objects(tmp_path)}


def test_a_reader_keeps_what_it_has_open_while_the_cache_is_cleared(
    root: str, server: FaultServer, tmp_path: Path
) -> None:
    source = source_of(f"{root}/x", tmp_path)
    read_blocks(source)
    clear_object(tmp_path, source._cache.key)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_blocks(source)  # over the network; the folder is gone, which is no reason to warn
    read_blocks(source_of(f"{root}/x", tmp_path))
    assert len(entries(tmp_path)) == BLOCKS


def test_a_forked_child_reads_on_and_holds_no_lock(root: str, server: FaultServer, tmp_path: Path) -> None:
    source = source_of(f"{root}/x", tmp_path)
    with source._cache.locked("3"):
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(30,))
        child.start()
    started = time.monotonic()
    assert source.read_at(3 * BLOCK, BLOCK) == DATA[3 * BLOCK : 4 * BLOCK]
    assert time.monotonic() - started < 5
    child.kill()
    child.join()
    worker = multiprocessing.get_context("fork").Process(target=read_blocks, args=(source,))
    worker.start()
    worker.join()
    assert worker.exitcode == 0
