"""Sets and recordings on a server are the local ones: bytes, batches, states, in every kind of process."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainload as tl
from dts_builder import DtsBuilder
from fault_server import FaultServer, random_faults, serving
from loading_data import jpegs
from object_store import BUCKET, KEY, SECRET, ObjectStore, running_store
from trainload.storage import http

pytest.importorskip("urllib3", reason="the extra trainload[remote] is not installed")
pytest.importorskip("obstore", reason="the extra trainload[remote] is not installed")
DATA = Path(__file__).parents[1] / "data"
COUNT, PER_BLOCK = 40, 14
OPTIONS: dict[str, Any] = {"batch_size": 7, "ops": [tl.RandomResizedCrop(24), tl.RandomHorizontalFlip()], "seed": 3}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pictures = [(data, n % 3, f"{'abc'[n % 3]}/{n}.jpg") for n, data in enumerate(jpegs(COUNT))]
    blocks = [pictures[n : n + PER_BLOCK] for n in range(0, COUNT, PER_BLOCK)]
    return DtsBuilder(blocks, "abc").write(tmp_path_factory.mktemp("sets") / "train.dts")


@pytest.fixture(scope="module")
def recording() -> Path:
    return min(DATA.glob("**/*.hfr"), key=lambda path: path.name)


@pytest.fixture
def server(local: Path, recording: Path) -> FaultServer:
    return FaultServer({"/train.dts": local.read_bytes(), "/drive.hfr": recording.read_bytes()})


@pytest.fixture
def root(server: FaultServer) -> Iterator[str]:
    with serving(server) as url:
        yield url


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, local: Path, recording: Path) -> Iterator[ObjectStore]:
    with running_store(tmp_path_factory.mktemp("store")) as running:
        running.put("sets/train.dts", local)
        running.put("drives/a.hfr", recording)
        running.put("drives/deeper/b.hfr", recording)
        running.put("drives/note.txt", b"no recording")
        yield running


def batches(loader: Any, count: int | None = None) -> list[tuple[np.ndarray, ...]]:
    found = []
    for batch in loader:
        found.append(tuple(np.array(part) for part in batch))
        if len(found) == count:
            break
    return found


def assert_equal(one: list[tuple[np.ndarray, ...]], two: list[tuple[np.ndarray, ...]]) -> None:
    assert len(one) == len(two)
    for a, b in zip(one, two):
        assert all(map(np.array_equal, a, b))


@pytest.mark.parametrize("mode", ["fully", "partial"])
@pytest.mark.parametrize("cached", [False, True])
def test_batches_are_those_of_the_local_set(
    mode: str, cached: bool, root: str, local: Path, server: FaultServer, tmp_path: Path
) -> None:
    ds = tl.open_images(f"{root}/train.dts", cache=tmp_path / "cache" if cached else None)
    options = {**OPTIONS, "mode": mode, "shuffle": "group", "group_blocks": 2}
    remote, here = tl.ImageLoader(ds, **options), tl.ImageLoader(local, **options)
    for _ in range(2):
        assert_equal(batches(remote), batches(here))
    stats = remote.stats
    assert stats.network_bytes + stats.cache_bytes == stats.read_bytes > 0 and stats.network_retries == 0
    if cached:
        before = len(server.requests)
        again = tl.ImageLoader(tl.open_images(f"{root}/train.dts", cache=tmp_path / "cache"), **options)
        assert_equal(batches(again), batches(tl.ImageLoader(local, **options)))
        assert again.stats.network_bytes == 0 and again.stats.cache_bytes == again.stats.read_bytes
        assert all(method == "HEAD" or "bytes=0-" in where for method, _, where in server.requests[before:])


def test_a_state_goes_from_the_local_set_to_the_remote_one_and_back(root: str, local: Path) -> None:
    options = {**OPTIONS, "mode": "partial"}
    expected = batches(tl.ImageLoader(local, **options))
    found: list[tuple[np.ndarray, ...]] = []
    state = None
    for place in (local, f"{root}/train.dts", local):
        loader = tl.ImageLoader(place, **options)
        if state is not None:
            loader.load_state_dict(state)
        found += batches(loader, 2)
        state = loader.state_dict()
    assert_equal(found, expected)


def test_a_server_that_fails_changes_no_batch(
    root: str, local: Path, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_sleep", lambda seconds: None)
    ds = tl.open_images(f"{root}/train.dts")
    server.fault = random_faults(4, ("503", "reset", "short", "wrong range"), 0.4)
    loader = tl.ImageLoader(ds, mode="partial", group_blocks=1, **OPTIONS)
    assert_equal(batches(loader), batches(tl.ImageLoader(local, mode="partial", group_blocks=1, **OPTIONS)))
    batches(loader)
    assert loader.stats.network_retries > 0 and loader.stats.slowest_read_seconds > 0


def test_a_set_that_changes_ends_the_epoch_with_what_it_was(root: str, server: FaultServer) -> None:
    loader = tl.ImageLoader(tl.open_images(f"{root}/train.dts"), mode="partial", group_blocks=1, **OPTIONS)
    server.objects["/train.dts"] = server.objects["/train.dts"][:-1] + b"x"
    with pytest.raises(tl.DatasetChangedError, match=r"was \"[0-9a-f]{32}\" of .* and is \"[0-9a-f]{32}\" of"):
        batches(loader)


def test_a_set_opens_with_few_requests(root: str, server: FaultServer, local: Path) -> None:
    with tl.open_images(f"{root}/train.dts") as ds:
        assert len(ds) == COUNT
    gets = [where for method, _, where in server.requests if method == "GET"]
    assert len(gets) <= 3 + 3  # kind, header, extension, and three blocks, as this set has no table of samples


def test_a_recording_opens_with_three_gets_and_reads_as_the_local_one(
    root: str, recording: Path, server: FaultServer
) -> None:
    with tl.open_recording(f"{root}/drive.hfr") as remote, tl.open_recording(recording) as here:
        assert sum(method == "GET" for method, _, _ in server.requests) <= 3
        for one, two in zip(remote.frames(), here.frames(), strict=True):
            assert (one.stream, one.timestamp_ns, bytes(one.data)) == (two.stream, two.timestamp_ns, bytes(two.data))
        before = len(server.requests)
        assert len(list(remote.windows[0])) == len(list(here.windows[0]))
        assert len(server.requests) - before <= 1
        copy = pickle.loads(pickle.dumps(remote))
        assert copy.end_ns == here.end_ns


def test_whole_files_and_sets_are_verified_over_the_network(root: str, local: Path) -> None:
    assert tl.verify(f"{root}/train.dts").good and tl.verify(f"{root}/drive.hfr").good
    assert len(tl.open_images(f"{root}/train.dts", verify="file")) == COUNT


def read_one(ds: tl.DtsReader, expected: bytes) -> None:
    assert bytes(ds[7].data) == expected
    loader = tl.ImageLoader(ds, mode="partial", **OPTIONS)
    assert len(batches(loader)) == len(loader)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_every_kind_of_child_reads_on(method: str, store: ObjectStore, local: Path) -> None:
    ds = tl.open_images(f"s3://{BUCKET}/sets/train.dts", storage=store.storage)
    expected = bytes(tl.DtsReader(local)[7].data)
    context: Any = multiprocessing.get_context(method)
    child = context.Process(target=read_one, args=(ds, expected))
    child.start()
    child.join(60)
    alive = child.is_alive()
    child.kill()
    assert not alive and child.exitcode == 0


def open_another(storage: dict[str, str]) -> None:
    with pytest.raises(tl.ForkSafetyError, match="spawn"):
        tl.open_images(f"s3://{BUCKET}/sets/*.dts", storage=storage)


@pytest.mark.slow
def test_what_would_hang_in_a_forked_child_is_an_error(store: ObjectStore) -> None:
    tl.open_images(f"s3://{BUCKET}/sets/train.dts", storage=store.storage)
    child = multiprocessing.get_context("fork").Process(target=open_another, args=(store.storage,))
    child.start()
    child.join(60)
    alive = child.is_alive()
    child.kill()
    assert not alive and child.exitcode == 0


@pytest.mark.slow
def test_patterns_and_folders_of_a_bucket(store: ObjectStore, recording: Path, local: Path) -> None:
    storage = store.storage
    assert isinstance(tl.open(f"s3://{BUCKET}/sets/tr*n.dts", storage=storage), tl.DtsReader)
    assert isinstance(tl.open(f"s3://{BUCKET}/drives/", storage=storage), tl.HyperframeReader)
    with pytest.raises(tl.UsageError, match="no object of that name"):
        tl.open(f"s3://{BUCKET}/sets/val-*.dts", storage=storage)
    with pytest.raises(tl.RemoteError, match="no such object"):
        tl.open(f"s3://{BUCKET}/sets/val.dts", storage=storage)
    with pytest.raises(tl.RemoteError, match="credentials"):
        tl.open(f"s3://{BUCKET}/sets/train.dts", storage={**storage, "secret_access_key": "wrong"})
    with pytest.raises(tl.UsageError, match="option that s3:// does not know"):
        tl.open(f"s3://{BUCKET}/sets/train.dts", storage={**storage, "no_such_option": "1"})


@pytest.mark.slow
def test_the_command_line_takes_urls(store: ObjectStore, tmp_path: Path) -> None:
    environment = os.environ | {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_REGION": "us-east-1",
    }
    program = Path(sys.executable).with_name("trainload")
    url, drive = f"s3://{BUCKET}/sets/train.dts", f"s3://{BUCKET}/drives/a.hfr"
    for words, expected in (
        (["info", url], "40"),
        (["verify", url, f"s3://{BUCKET}/drives/*.hfr"], "good"),
        (["extract", url, str(tmp_path / "out")], ""),
        (["slice", drive, str(tmp_path / "part.hfr"), "--to", "100ms"], "windows"),
        (["align", drive, "--to", "7", "--allow-host"], "aligned to 7"),
        (["export", "mcap", drive, str(tmp_path / "drive.mcap")], "messages"),
    ):
        done = subprocess.run([program, *words], env=environment, check=False, capture_output=True, text=True)
        assert done.returncode == 0 and expected in done.stdout, done
    assert len(list((tmp_path / "out").glob("*/*"))) == COUNT
    done = subprocess.run([program, "info", f"{url}x"], env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 3 and "no such object" in done.stderr


def test_nothing_but_the_server_is_spoken_to(root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        asked.append(address)
        real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    batches(tl.ImageLoader(f"{root}/train.dts", **OPTIONS))
    for scheme in ("s3", "gs", "az"):
        with pytest.raises(tl.UsageError, match="no credentials"):  # and no metadata service is asked for them
            tl.open(f"{scheme}://bucket/a.dts")
    assert {address[0] for address in asked} == {"127.0.0.1"}


def test_a_local_path_imports_no_client(local: Path) -> None:
    code = (
        f"import sys, trainload as tl; tl.open({str(local)!r}); "
        "print([name for name in ('urllib3', 'obstore', 'boto3', 'ray') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True).stdout == "[]\n"
