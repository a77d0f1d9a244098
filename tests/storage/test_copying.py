"""Copies between disks and buckets: whole and equal, or not there; after a kill the same command goes on."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainload as tl
from fault_server import FaultServer, serving
from object_store import BUCKET, KEY, SECRET, ObjectStore, running_store
from trainload.storage import copying
from trainload.storage.bucket import Bucket
from trainload.storage.location import Url, access_of

DATA = random.Random(8).randbytes(70_000)
PIECE = 1000


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying._FileCopy, "piece_bytes", PIECE)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    pytest.importorskip("obstore", reason="the extra trainload[remote] is not installed")
    with running_store(tmp_path_factory.mktemp("store")) as running:
        yield running


def bucket_of(store: ObjectStore) -> Bucket:
    return Bucket(Url(f"s3://{BUCKET}/x", access_of(store.storage, None, "auto")))


class StoppedError(Exception):
    """What ends a copy."""


def stopping_after(calls: int) -> Any:
    left = [calls]

    def progress(done: int, total: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise StoppedError

    return progress


@settings(max_examples=40, deadline=None)
@given(size=st.integers(0, 5 * PIECE), stop=st.integers(0, 7), flip=st.integers(0, 5 * PIECE) | st.none())
def test_a_file_is_copied_whole_whatever_an_earlier_run_left(
    size: int, stop: int, flip: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("copy")
    source, target = folder / "a.dts", folder / "b.dts"
    source.write_bytes(DATA[:size])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying._FileCopy, "piece_bytes", PIECE)
        try:
            tl.copy_files(source, target, progress=stopping_after(stop))
        except StoppedError:
            assert not target.exists()
            unfinished = target.with_name("b.dts.tmp")
            if flip is not None and flip < unfinished.stat().st_size:
                data = bytearray(unfinished.read_bytes())
                data[flip] ^= 1
                unfinished.write_bytes(data)
            [copied] = tl.copy_files(source, target)
            assert copied.size == size and copied.resumed <= size
    assert target.read_bytes() == DATA[:size]
    assert sorted(path.name for path in folder.iterdir()) == ["a.dts", "b.dts"]


def test_a_source_that_changed_is_copied_from_its_start(small_pieces: None, tmp_path: Path) -> None:
    source, target = tmp_path / "a.dts", tmp_path / "b.dts"
    source.write_bytes(DATA)
    with pytest.raises(StoppedError):
        tl.copy_files(source, target, progress=stopping_after(20))
    source.write_bytes(DATA[::-1])
    [copied] = tl.copy_files(source, target)
    assert copied.resumed == 0 and target.read_bytes() == DATA[::-1]


def test_a_url_is_copied_and_gone_on_with(small_pieces: None, tmp_path: Path) -> None:
    server = FaultServer({"/a.dts": DATA})
    with serving(server) as root:
        with pytest.raises(StoppedError):
            tl.copy_files(f"{root}/a.dts", f"{tmp_path}/", progress=stopping_after(30))
        [copied] = tl.copy_files(f"{root}/a.dts", f"{tmp_path}/")
    assert copied.resumed == 30 * PIECE and (tmp_path / "a.dts").read_bytes() == DATA


def test_folders_and_names(tmp_path: Path) -> None:
    for name in ("one/a.dts", "one/b.hfr", "one/note.txt", "two/a.dts"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    tl.copy_files(tmp_path / "one", f"{tmp_path}/out/")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"a.dts", "b.hfr"}
    with pytest.raises(tl.UsageError, match="exists"):
        tl.copy_files(tmp_path / "one", tmp_path / "out")
    tl.copy_files(tmp_path / "two", tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "a.dts").read_bytes() == b"two/a.dts"
    with pytest.raises(tl.UsageError, match=r"the name a\.dts"):
        tl.copy_files([tmp_path / "one", tmp_path / "two"], f"{tmp_path}/more/")
    with pytest.raises(tl.UsageError, match="into a folder"):
        tl.copy_files(tmp_path / "one", tmp_path / "single.dts")
    with pytest.raises(tl.UsageError, match="it is an input"):
        tl.copy_files(tmp_path / "one" / "a.dts", tmp_path / "one" / "a.dts", overwrite=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(tl.UsageError, match=r"no \.dts or \.hfr"):
        tl.copy_files(tmp_path / "empty", f"{tmp_path}/out/")


@pytest.mark.slow
def test_to_a_bucket_and_back(store: ObjectStore, tmp_path: Path) -> None:
    data = random.Random(1).randbytes((33 << 20) + 17)
    (tmp_path / "a.dts").write_bytes(data)
    (tmp_path / "empty.hfr").write_bytes(b"")
    url = f"s3://{BUCKET}/copies/"
    copied = tl.copy_files([tmp_path / "a.dts", tmp_path / "empty.hfr"], url, storage=store.storage)
    assert [one.target for one in copied] == [f"{url}a.dts", f"{url}empty.hfr"]
    with pytest.raises(tl.UsageError, match="object exists"):
        tl.copy_files(tmp_path / "a.dts", url, storage=store.storage)
    tl.copy_files(f"{url}*", f"{tmp_path}/back/", storage=store.storage)
    assert (tmp_path / "back" / "a.dts").read_bytes() == data
    assert (tmp_path / "back" / "empty.hfr").read_bytes() == b""
    tl.copy_files(f"{url}a.dts", f"{url}b.dts", storage=store.storage)
    assert bucket_of(store).get(f"{url}b.dts") == data
    with pytest.raises(tl.UsageError, match="its own copy"):
        tl.copy_files(f"{url}a.dts", url, overwrite=True, storage=store.storage)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_copy_into_a_bucket_that_is_killed_goes_on(
    kills: int, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_REGION": "us-east-1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    data = random.Random(2).randbytes((100 << 20) + 5)
    (tmp_path / "a.dts").write_bytes(data)
    url = f"s3://{BUCKET}/killed-{kills}/a.dts"
    command = [str(Path(sys.executable).with_name("trainload")), "copy", str(tmp_path / "a.dts"), url]
    draw = random.Random(kills)
    for _ in range(kills):
        worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(draw.uniform(0.5, 1.5))
        worker.kill()
        worker.wait()
        if bucket_of(store).head(url) is not None:
            break
    else:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0 and "bytes" in done.stdout, done.stderr
    assert bucket_of(store).get(url) == data
    assert bucket_of(store).uploads(url) == []
