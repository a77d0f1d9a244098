"""A set packed into a bucket is the one packed on a disk: bytes, names, and what is left after kills."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trainload as tl
from object_store import BUCKET, KEY, SECRET, ObjectStore, running_store
from picture_folders import class_folders
from trainload.cli.app import VERBS
from trainload.errors import FormatError
from trainload.images.packing.plan import check_count
from trainload.storage.bucket import Bucket
from trainload.storage.bucket_volumes import BucketVolume
from trainload.storage.location import Url, access_of
from trainload.storage.set_manifest import manifest_from_bytes

pytest.importorskip("obstore", reason="the extra trainload[remote] is not installed")
pytestmark = pytest.mark.slow  # a server, or Ray
PROGRAM = Path(sys.executable).with_name("trainload")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with running_store(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: ObjectStore) -> None:
    for name, value in environment(store, tmp_path).items():
        monkeypatch.setenv(name, value)


def environment(store: ObjectStore, home: Path) -> dict[str, str]:
    return {
        "XDG_CACHE_HOME": str(home / "cache"),
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_REGION": "us-east-1",
    }


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return class_folders(tmp_path_factory.mktemp("pictures"), classes=3, each=8)


@pytest.fixture
def bucket(store: ObjectStore) -> Bucket:
    return Bucket(Url(f"s3://{BUCKET}/x", access_of(store.storage, None, "auto")))


def packed(pictures: Path, folder: Path, volumes: int) -> dict[str, str]:
    """SHA-256 by name of the set packed on this machine's disk."""
    tl.pack_images(pictures, folder / "train.dts", level=1, volumes=volumes, jobs=1)
    return {path.name: digest(path.read_bytes()) for path in sorted(folder.glob("train*.dts"))}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def stored(bucket: Bucket, folder: str, names: Any) -> dict[str, str]:
    return {name: digest(bucket.get(f"s3://{BUCKET}/{folder}/{name}") or b"") for name in names}


def assert_nothing_is_left(bucket: Bucket, store: ObjectStore, folder: str, names: Any) -> None:
    """No upload under way, and no object but the set, its list and its report."""
    for name in names:
        assert bucket.uploads(f"s3://{BUCKET}/{folder}/{name}") == []
    found = store.client().list_objects_v2(Bucket=BUCKET, Prefix=f"{folder}/").get("Contents", [])
    expected = {*names, "train.json", "train.dts.report.json"}
    assert {one["Key"].rpartition("/")[2] for one in found} == expected


@pytest.mark.parametrize("volumes", [1, 3])
def test_a_set_in_a_bucket_is_the_set_on_the_disk(
    volumes: int, pictures: Path, bucket: Bucket, store: ObjectStore, tmp_path: Path
) -> None:
    expected = packed(pictures, tmp_path, volumes)
    folder = f"whole-{volumes}"
    url = f"s3://{BUCKET}/{folder}/train.dts"
    summary = tl.pack_images(pictures, url, level=1, volumes=volumes, jobs=1, storage=store.storage)
    assert [path.rpartition("/")[2] for path in summary.sets[0].paths] == list(expected)
    assert stored(bucket, folder, expected) == expected
    assert_nothing_is_left(bucket, store, folder, expected)
    for name in ("train.json", "train.dts"):  # of several volumes the latter is no object, but the set's name
        with tl.open_images(f"s3://{BUCKET}/{folder}/{name}") as ds:
            assert len(ds) == 24 and len(ds.paths) == volumes
    assert tl.verify(f"s3://{BUCKET}/{folder}/train.json").good
    with pytest.raises(tl.UsageError, match="the object exists"):
        tl.pack_images(pictures, url, level=1, volumes=volumes, jobs=1)
    tl.pack_images(pictures, url, level=1, volumes=volumes, jobs=1, overwrite=True)
    assert stored(bucket, folder, expected) == expected


def test_a_volume_that_was_replaced_is_not_opened_by_the_list(pictures: Path, store: ObjectStore) -> None:
    url = f"s3://{BUCKET}/replaced/train.dts"
    tl.pack_images(pictures, url, level=0, jobs=1)
    tl.pack_images(pictures, f"s3://{BUCKET}/replaced/other.dts", level=1, jobs=1)
    client = store.client()
    client.copy_object(
        Bucket=BUCKET, Key="replaced/train.dts", CopySource={"Bucket": BUCKET, "Key": "replaced/other.dts"}
    )
    with pytest.raises(tl.DatasetChangedError):
        tl.open_images(f"s3://{BUCKET}/replaced/train.json")


def test_a_plan_in_a_bucket_is_packed_by_jobs(
    pictures: Path, bucket: Bucket, store: ObjectStore, tmp_path: Path
) -> None:
    assert "pack" in VERBS
    expected = packed(pictures, tmp_path, 3)
    url = f"s3://{BUCKET}/planned/train.dts"
    run("pack", "plan", pictures, url, "--volumes", 3, "--level", 1)
    for volume in (2, 0, 1, 1):  # one of them twice
        run("pack", "volume", f"{url}.plan", volume, "--anew")
    run("pack", "finish", f"{url}.plan")
    assert stored(bucket, "planned", expected) == expected
    bucket.delete(f"{url}.plan")
    assert_nothing_is_left(bucket, store, "planned", expected)


def run(*words: object) -> None:
    done = subprocess.run([PROGRAM, *map(str, words)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_a_pack_that_is_killed_goes_on_and_leaves_no_upload(
    kills: int, pictures: Path, bucket: Bucket, store: ObjectStore, tmp_path: Path
) -> None:
    expected = packed(pictures, tmp_path, 3)
    folder = f"killed-{kills}"
    command = [PROGRAM, "pack", "images", pictures, f"s3://{BUCKET}/{folder}/train.dts", "--volumes", 3, "--level", 1]
    command += ["--jobs", 1, "--resume"]
    draw = random.Random(kills)
    for _ in range(kills):
        worker = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(draw.uniform(0.3, 2.2))
        worker.kill()
        worker.wait()
        if stored(bucket, folder, ["train.json"])["train.json"] != digest(b""):
            break
    run(*command[1:], *([] if bucket.head(f"s3://{BUCKET}/{folder}/train.json") is None else ["--overwrite"]))
    assert stored(bucket, folder, expected) == expected
    assert_nothing_is_left(bucket, store, folder, expected)


def test_a_pack_that_ends_between_two_volumes_goes_on(
    pictures: Path, bucket: Bucket, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = packed(pictures, tmp_path, 2)
    url = f"s3://{BUCKET}/between/train.dts"
    commit = BucketVolume.commit

    def ends(volume: BucketVolume) -> None:
        if bucket.uploads(f"s3://{BUCKET}/between/train-0-of-2.dts") == []:
            raise KeyboardInterrupt
        commit(volume)

    with monkeypatch.context() as patch:
        patch.setattr(BucketVolume, "commit", ends)
        with pytest.raises(KeyboardInterrupt):
            tl.pack_images(pictures, url, level=1, volumes=2, jobs=1)
    assert bucket.head(f"s3://{BUCKET}/between/train-0-of-2.dts") is not None
    assert bucket.head(f"s3://{BUCKET}/between/train-1-of-2.dts") is None
    tl.pack_images(pictures, url, level=1, volumes=2, jobs=1, resume=True)
    assert stored(bucket, "between", expected) == expected
    assert_nothing_is_left(bucket, store, "between", expected)


def test_too_many_blocks_for_an_object_are_said_before_any_work() -> None:
    class Table:
        sizes = __import__("numpy").full(20_000, 16 << 20, "i8")

        def __len__(self) -> int:
            return 20_000

    options: Any = type("Options", (), {"volumes": 2, "level": 0})
    with pytest.raises(tl.UsageError, match="9,999 blocks, and the set 20,000: pack 3 volumes or more"):
        check_count(Table(), options, 9_999)  # type: ignore[arg-type]


def test_only_s3_can_be_written_to(pictures: Path) -> None:
    for url in ("gs://bucket/train.dts", "az://bucket/train.dts", "https://host/train.dts"):
        with pytest.raises(tl.UsageError, match="only s3:// can be written to"):
            tl.pack_images(pictures, url, level=0)


GOOD = {"name": "train.dts", "size": 5, "etag": '"e"', "crc": 7}
BAD: dict[str, Any] = {
    "no JSON": b"{",
    "no object": [],
    "another format": {"format": "x", "version": 1, "uuid": "", "volumes": [GOOD]},
    "another version": {"format": "trainload-set", "version": 2, "uuid": "", "volumes": [GOOD]},
    "no volumes": {"format": "trainload-set", "version": 1, "uuid": "", "volumes": []},
    "a field more": {"format": "trainload-set", "version": 1, "uuid": "", "volumes": [{**GOOD, "x": 1}]},
    "a path": {"format": "trainload-set", "version": 1, "uuid": "", "volumes": [{**GOOD, "name": "../x.dts"}]},
    "a size below zero": {"format": "trainload-set", "version": 1, "uuid": "", "volumes": [{**GOOD, "size": -1}]},
    "a text for a number": {"format": "trainload-set", "version": 1, "uuid": "", "volumes": [{**GOOD, "crc": "7"}]},
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("name", BAD)
def test_a_list_of_volumes_that_is_none_is_refused_by_its_rule(name: str) -> None:
    data = BAD[name] if isinstance(BAD[name], bytes) else json.dumps(BAD[name]).encode()
    with pytest.raises(FormatError) as caught:
        manifest_from_bytes(data, "s3://b/train.json")
    assert caught.value.rule_id == "set.manifest" and caught.value.path == "s3://b/train.json"
