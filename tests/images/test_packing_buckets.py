"""Pictures in a bucket pack to the bytes that the same folder on the disk gives."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import trainload as tl
from object_store import BUCKET, KEY, SECRET, ObjectStore, running_store
from picture_folders import class_folders, encoded, picture
from trainload.cli.app import app
from trainload.images.packing.images import image_sets
from trainload.images.packing.plan import make_plan
from trainload.images.packing.plan_file import plan_from_bytes, plan_to_bytes
from trainload.images.packing.source_files import ObjectFiles
from trainload.storage.location import Url, access_of

pytestmark = pytest.mark.slow  # a server, or Ray


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    pytest.importorskip("obstore", reason="obstore is not installed: pip install 'trainload[remote]'")
    with running_store(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture(scope="module")
def folder(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data/train and data/val, and the same below s3://bucket/data; hidden files, a picture above 64 KB, no picture."""
    root = tmp_path_factory.mktemp("data") / "data"
    class_folders(root / "train", classes=3, each=5)
    class_folders(root / "val", classes=3, each=2)
    (root / "train" / "class1" / "large one.jpeg").write_bytes(encoded(picture(9, (900, 700)), quality=99))
    (root / "train" / "class1" / ".hidden.jpeg").write_bytes(b"x")
    (root / "train" / "class2" / "notes.txt").write_bytes(b"notes")
    assert (root / "train" / "class1" / "large one.jpeg").stat().st_size > 1 << 16
    for path in root.rglob("*"):
        if path.is_file():
            store.put(str(path.relative_to(root.parent)), path)
    return root


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.dts"))}


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_folder_of_a_bucket_packs_to_the_bytes_of_a_folder(
    store: ObjectStore, folder: Path, tmp_path: Path, level: int, slash: str
) -> None:
    local = tl.pack_images(folder, tmp_path / "local", level=level, jobs=1)
    url = f"s3://{BUCKET}/data{slash}"
    remote = tl.pack_images(url, tmp_path / "remote", level=level, jobs=2, storage=store.storage)
    assert digests(tmp_path / "remote") == digests(tmp_path / "local") and len(digests(tmp_path / "remote")) == 2
    assert remote.sets[0].left_out == local.sets[0].left_out
    one = tl.pack_images(f"{url.rstrip('/')}/train", tmp_path / "one.dts", level=level, jobs=1, storage=store.storage)
    assert digests(tmp_path)["one.dts"] == digests(tmp_path / "local")["train.dts"] and one.pictures == 16


def test_a_plan_of_a_bucket_holds_no_credentials(store: ObjectStore, folder: Path) -> None:
    access = access_of(store.storage, None, "auto")
    [(table, options)] = image_sets(Url(f"s3://{BUCKET}/data/train", access), "x.dts", volumes=2)[0].values()
    plan = make_plan(table, options)
    data = plan_to_bytes(plan)
    assert SECRET.encode() not in data and KEY.encode() not in data
    again = plan_from_bytes(data, access=access)
    assert again.digest == plan.digest and isinstance(again.table.files, ObjectFiles)
    assert again.table.files.read(again.table.locator(3)) == table.files.read(table.locator(3))


def test_the_commands_take_credentials_from_the_environment(
    store: ObjectStore, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import trainload.cli.pack_steps  # noqa: F401 - registers the verbs

    monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    out = tmp_path / "steps" / "train.dts"
    for words in (
        ["plan", f"s3://{BUCKET}/data/train", str(out), "--volumes", "2", "--jobs", "1"],
        ["volume", f"{out}.plan", "1", "--jobs", "1"],
        ["volume", f"{out}.plan", "0", "--jobs", "2"],
        ["finish", f"{out}.plan"],
    ):
        assert CliRunner().invoke(app, ["pack", *words], catch_exceptions=False).exit_code == 0
    tl.pack_images(folder / "train", tmp_path / "local" / "train.dts", volumes=2, jobs=1)
    assert digests(out.parent) == digests(tmp_path / "local")


def test_what_no_bucket_gives_is_said(store: ObjectStore, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("a.jpeg cat\n")
    url = f"s3://{BUCKET}/data/train"
    with pytest.raises(tl.UsageError, match="bucket has class folders"):
        tl.pack_images(url, tmp_path / "x.dts", labels=tmp_path / "labels.txt", storage=store.storage)
    with pytest.raises(tl.UsageError, match="or a folder of a bucket, not from"):
        tl.pack_images(f"{url}.tar", tmp_path / "x.dts", storage=store.storage)
    with pytest.raises(tl.UsageError, match="or a folder of a bucket, not from"):
        tl.pack_images("https://example.org/train", tmp_path / "x.dts")
    with pytest.raises(tl.UsageError, match="there are no classes of pictures"):
        tl.pack_images(f"s3://{BUCKET}/nothing", tmp_path / "x.dts", storage=store.storage)
    assert not list(tmp_path.glob("x*"))


@pytest.mark.slow
def test_tasks_on_ray_read_the_bucket_too(store: ObjectStore, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'trainload[ray]'")
    url = f"s3://{BUCKET}/data/train"
    tl.pack_images(url, tmp_path / "ray" / "train.dts", volumes=2, on="ray", storage=store.storage)
    tl.pack_images(folder / "train", tmp_path / "local" / "train.dts", volumes=2, jobs=1)
    assert digests(tmp_path / "ray") == digests(tmp_path / "local")
