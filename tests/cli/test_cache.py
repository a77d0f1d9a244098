"""`trainload cache`: what it lists, fetches and removes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fault_server import FaultServer, serving
from trainload.cli.app import app
from trainload.cli.cache import cache_app
from trainload.errors import UsageError
from trainload.storage import block_cache, cached

pytest.importorskip("urllib3", reason="the extra trainload[remote] is not installed")
DATA = random.Random(9).randbytes(10_500)


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for module in (block_cache, cached):
        monkeypatch.setattr(module, "BLOCK_BYTES", 1000)
    monkeypatch.setattr("trainload.storage.remote.HEAD_BYTES", 0)
    with serving(FaultServer({"/a/x.dts": DATA})) as root:
        yield f"{root}/a/x.dts"


def run(folder: Path, *words: str) -> str:
    result = CliRunner().invoke(app, ["cache", *words, "--folder", str(folder)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0
    return result.output


def test_a_set_is_fetched_listed_and_cleared(url: str, tmp_path: Path) -> None:
    assert cache_app is not None
    assert run(tmp_path, "ls") == "0 bytes of 0 objects\n"
    assert f"{url}: 10,500 bytes fetched, 0 were there" in run(tmp_path, "warm", url)
    assert f"{url}: 0 bytes fetched, 10,500 were there" in run(tmp_path, "warm", url)
    listed = run(tmp_path, "ls")
    assert url in listed.replace("\n", "") and "11,204" in listed and "100%" in listed and "this hour" in listed
    assert run(tmp_path, "clear", url) == "11,204 bytes freed\n"
    assert run(tmp_path, "ls") == "0 bytes of 0 objects\n"


def test_a_part_of_a_set_is_fetched_where_little_is_allowed(url: str, tmp_path: Path) -> None:
    fetched = run(tmp_path, "warm", url, "--bytes", "4.2kB")
    assert ": 4,000 bytes fetched" in fetched or ": 3,500 bytes fetched" in fetched  # the last block is a half one
    freed = run(tmp_path, "clear", "--all")
    assert freed == ("4,256 bytes freed\n" if ": 4,000" in fetched else "3,756 bytes freed\n")


def test_what_the_cache_cannot_do_says_why(url: str, tmp_path: Path) -> None:
    (tmp_path / "file.dts").write_bytes(b"x")
    with pytest.raises(UsageError, match="needs no cache"):
        run(tmp_path, "warm", str(tmp_path / "file.dts"))
    with pytest.raises(UsageError, match="nothing of s3://b/x"):
        run(tmp_path, "clear", "s3://b/x")
    for words in (("clear",), ("clear", url, "--all")):
        with pytest.raises(UsageError, match="--all"):
            run(tmp_path, *words)
