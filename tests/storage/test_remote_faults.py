"""Reads of a server that fails: right bytes, or an error that says why, within the time that a read may take."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fault_server import PASSING, Fault, FaultServer, etag_of, random_faults, serving
from trainload.errors import DatasetChangedError, FormatError, RemoteError, TrainloadError, UsageError
from trainload.storage import http, objects, remote
from trainload.storage.http import FIRST_WAIT, TRIES
from trainload.storage.location import Url, access_of, open_source
from trainload.storage.remote import HEAD_BYTES

pytest.importorskip("urllib3", reason="the extra trainload[remote] is not installed")
DATA = random.Random(5).randbytes(300_000)


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a read would have waited between its tries; nothing waits, and silence is short."""
    noted: list[float] = []
    monkeypatch.setattr(http, "_sleep", noted.append)
    monkeypatch.setattr(http, "SILENCE_SECONDS", 0.1)
    return noted


@pytest.fixture
def server() -> FaultServer:
    return FaultServer({"/x": DATA, "/empty": b""})


@pytest.fixture
def url(server: FaultServer) -> Iterator[str]:
    with serving(server) as root:
        yield f"{root}/x"


def failing(server: FaultServer, *faults: Fault) -> None:
    """The next GETs meet these faults, later ones none."""
    server.fault = lambda path, n: faults[n] if n < len(faults) else ""


def test_reads_are_exact_wherever_they_lie(url: str, server: FaultServer) -> None:
    with open_source(url) as source:
        assert (source.path, source.size) == (url, len(DATA))
        assert source.identity() == (url, etag_of(DATA), len(DATA))
        for offset, size in (
            (0, 1),
            (0, len(DATA)),
            (70_000, 100_000),
            (len(DATA) - 1, 1),
            (5, 0),
            (HEAD_BYTES - 1, 2),
        ):
            assert source.read_at(offset, size) == DATA[offset : offset + size]
        assert bytes(source.read_aligned_at(7, 11)) == DATA[7:18]
        stretches = [(n * 1000, 900) for n in range(299, 0, -1)]
        assert source.read_many(stretches) == [DATA[at : at + size] for at, size in stretches]
        for offset, size in ((len(DATA), 1), (-1, 2), (0, len(DATA) + 1), (0, -1)):
            with pytest.raises(FormatError, match="end of the object"):
                source.read_at(offset, size)
    with pytest.raises(UsageError, match="closed"):
        source.read_at(0, 1)
    with open_source(f"{url[:-2]}/empty") as source:
        assert (source.size, source.read_at(0, 0)) == (0, b"")


def test_the_first_bytes_are_asked_for_once(url: str, server: FaultServer) -> None:
    with open_source(url) as source:
        for offset in range(0, 60_000, 1000):
            source.read_at(offset, 512)
    assert [request[0] for request in server.requests] == ["HEAD", "GET"]


@pytest.mark.parametrize("fault", PASSING)
def test_what_passes_is_tried_again(fault: Fault, url: str, server: FaultServer, waits: list[float]) -> None:
    source = open_source(url)
    failing(server, fault, fault, fault)
    assert source.read_at(100_000, 150_000) == DATA[100_000:250_000]
    assert len(waits) == 3 and all(0 <= wait <= FIRST_WAIT * 2**n for n, wait in enumerate(waits, 1))
    counted = source.take_traffic()
    assert counted is not None
    assert (counted.requests, counted.retries, counted.network_bytes) == (5, 3, 150_000)  # with the HEAD
    assert source.take_traffic() == type(counted)()


@pytest.mark.parametrize("fault", PASSING)
def test_what_does_not_pass_is_an_error_that_names_the_cause(fault: Fault, url: str, server: FaultServer) -> None:
    source = open_source(url)
    server.fault = lambda path, n: fault
    with pytest.raises(RemoteError) as caught:
        source.read_at(100_000, 50_000)
    assert caught.value.tries == TRIES and str(caught.value).endswith(url) and "after 5 tries" in str(caught.value)
    words = {
        "5": "answered 5",
        "4": "answered 4",
        "r": "connection|answer",
        "w": "asked for bytes 100000-149999/300000",
    }
    assert any(word in str(caught.value) for word in words.get(fault[0], "broke|ended|early").split("|")), caught.value
    if fault[0] in "54w":
        assert ", request r" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.tries, isinstance(again, OSError)) == (str(caught.value), TRIES, True)


def test_a_read_goes_on_from_the_byte_at_which_it_broke(
    url: str, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PIECE_BYTES", 1000)
    source = open_source(url)
    failing(server, "short", "reset late")
    assert source.read_at(100_000, 160_000) == DATA[100_000:260_000]
    starts = [int(given.split("=")[1].split("-")[0]) for method, _, given in server.requests if method == "GET"]
    assert starts[:2] == [100_000, 180_000] and 180_000 <= starts[2] <= 220_000


@pytest.mark.parametrize("fault", ["changed", "other bytes"])
def test_an_object_that_changed_is_never_mixed(fault: Fault, url: str, server: FaultServer) -> None:
    source = open_source(url)
    failing(server, "", fault)
    source.read_at(100_000, 10)
    if fault == "changed":
        server.objects["/x"] = DATA[::-1] + b"!"
    with pytest.raises(DatasetChangedError) as caught:
        source.read_at(200_000, 10)
    assert caught.value.old == f"{etag_of(DATA)} of 300,000 bytes"
    assert caught.value.new == (
        f"{etag_of(DATA[::-1] + b'!')} of 300,001 bytes"
        if fault == "changed"
        else f"{etag_of(DATA + b'!')} of 300000 bytes"
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    if fault == "changed":
        with pytest.raises(DatasetChangedError):  # nor by a copy, which means the old one
            pickle.loads(pickle.dumps(source)).read_at(200_000, 10)
        assert open_source(url).read_at(0, 5) == DATA[::-1][:5]


@pytest.mark.parametrize(("fault", "words"), [("gone", "no such object"), ("403", "credentials")])
def test_what_waiting_cannot_mend_is_not_waited_for(
    fault: Fault, words: str, url: str, server: FaultServer, waits: list[float]
) -> None:
    source = open_source(url)
    failing(server, fault)
    with pytest.raises(RemoteError, match=words):
        source.read_at(100_000, 10)
    assert not waits
    with pytest.raises(RemoteError, match="no such object"):
        open_source(f"{url}nowhere")


def test_a_server_that_is_not_there_is_an_error(waits: list[float]) -> None:
    with pytest.raises(RemoteError, match="no answer"):
        open_source("http://127.0.0.1:9/x")
    assert len(waits) == TRIES - 1


def test_a_read_ends_when_its_time_is_over(url: str, server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source(url)
    now = iter(range(0, 10_000, 40))
    monkeypatch.setattr(http, "_clock", lambda: next(now))
    server.fault = lambda path, n: "503"
    with pytest.raises(RemoteError, match="503") as caught:
        source.read_at(100_000, 10)
    assert caught.value.tries < TRIES


def test_a_server_that_drips_does_not_outlast_the_time_of_a_read(
    url: str, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source(url)
    source.take_traffic()
    now = iter(range(0, 1_000_000, 5))
    monkeypatch.setattr(http, "_clock", lambda: next(now))
    server.fault = lambda path, n: "drip"
    with pytest.raises(RemoteError, match="longer than 60 s"):
        source.read_at(100_000, 1000)
    counted = source.take_traffic()
    assert counted is not None and 0 < counted.network_bytes < 1000 and counted.requests == 1


@pytest.fixture
def signed(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Url]:
    """The object as one of a bucket, which is asked for by signed URLs."""
    pytest.importorskip("obstore", reason="the extra trainload[remote] is not installed")
    server.objects["/bucket/x"] = DATA
    monkeypatch.setattr(remote, "_signed", {})
    with serving(server) as root:
        storage = {"endpoint": root, "access_key_id": "k", "secret_access_key": "s", "region": "us-east-1"}
        yield Url("s3://bucket/x", access_of(storage, None, "auto"))


def test_a_signed_url_that_is_refused_is_signed_anew_once(
    signed: Url, server: FaultServer, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    sign = objects.sign

    def noting(url: Url, method: str = "GET") -> str:
        made.append(method)
        return sign(url, method)

    monkeypatch.setattr(objects, "sign", noting)
    source = open_source(signed)
    failing(server, "403")
    assert source.read_at(100_000, 50_000) == DATA[100_000:150_000]
    assert made == ["HEAD", "GET", "GET"] and all("X-Amz-Signature=" in query for query in server.queries)
    server.fault = lambda path, n: "403"
    before = len(server.requests)
    with pytest.raises(RemoteError, match="credentials") as caught:
        source.read_at(100_000, 10)
    assert len(server.requests) - before == 2 and not waits
    assert "Signature" not in str(caught.value) and str(caught.value).endswith("s3://bucket/x")


def read_all(url: str, seed: int, count: int, waits: list[float]) -> tuple[int, int]:
    """So many reads of random places by eight threads: how many were right, and how many ended in an error of ours.

    Bytes that are not the object's fail here.
    """
    source = open_source(url)
    draw = random.Random(seed)
    places = [(at := draw.randrange(len(DATA)), draw.randint(1, len(DATA) - at)) for _ in range(count)]

    def read(place: tuple[int, int]) -> bool:
        at, size = place
        try:
            data = source.clone().read_at(at, size)
        except TrainloadError:
            return False
        assert data == DATA[at : at + size], f"wrong bytes from {at:,}, {size:,} of them"
        return True

    with ThreadPoolExecutor(8) as pool:
        right = list(pool.map(read, places))
    assert sum(waits) <= count * http.SECONDS and max(waits, default=0) <= http.LONGEST_WAIT
    return sum(right), count - sum(right)


@pytest.mark.slow
def test_two_thousand_faulted_reads_give_right_bytes_or_an_error(
    server: FaultServer, url: str, waits: list[float]
) -> None:
    server.fault = random_faults(1, (*PASSING, "long", "wrong total"), 0.3)
    right, refused = read_all(url, 1, 1900, waits)
    assert right + refused == 1900 and right > 1800
    server.fault = random_faults(2, ("changed", "other bytes", "gone", "403", "slow"), 0.2)
    right, refused = read_all(url, 2, 100, waits)
    assert right + refused == 100 and refused > 5


def test_a_path_is_no_url() -> None:
    from trainload.storage.location import absolute, is_url, name_of, size_bytes

    for path in ("a.dts", "/a/b.dts", "C:\\a", "s3:/a", "file.s3://", "", os.fspath):
        assert not is_url(path)
    assert all(map(is_url, ("s3://b/k", "gs://b/k", "az://c/k", "https://h/k", "HTTP://h/k")))
    assert absolute("s3://b/k") == "s3://b/k" and name_of("https://h/a/k.dts?sig=1") == "k.dts"
    assert [size_bytes(size) for size in (5, "5", "200GB", "1.5 MB", "1_000")] == [5, 5, 200 * 10**9, 1_500_000, 1000]
    for size in ("", "GB", "-1", "5 parsecs", "nan", "inf"):
        with pytest.raises(UsageError, match="size"):
            size_bytes(size)


def test_a_url_keeps_how_it_is_read() -> None:
    url = Url("s3://b/k")
    assert pickle.loads(pickle.dumps(url)).access == url.access and Url(url) == url
