"""Writing to buckets that speak S3, by boto3: single objects, and large ones of parts that come in any order."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from trainload.errors import RemoteError, UsageError
from trainload.storage.location import Url
from trainload.storage.objects import credentials_of, environment, split

PART_BYTES = 16 << 20
MOST_PARTS = 10_000  # of an object, by the protocol
SMALL_BYTES = 256 << 20  # of an object that is read whole
_clients: dict[tuple[object, ...], Any] = {}  # by process and credentials: boto3's are not made for forks


class Part(NamedTuple):
    """A part of an upload, as the server has it."""

    number: int
    etag: str
    size: int


class Bucket:
    """Objects under one bucket's URL. Raises RemoteError where the server refuses; boto3 itself tries again."""

    def __init__(self, url: Url) -> None:
        if urlsplit(url).scheme != "s3":
            raise UsageError(
                f"only s3:// can be written to (gs:// too, by its S3 endpoint, https://storage.googleapis.com): {url}"
            )
        self.url = url
        self.name, _ = split(url)

    def key(self, url: str) -> str:
        """The key of an object of this bucket."""
        return split(url)[1]

    def size(self, url: str) -> int | None:
        """Bytes of an object, None where there is none."""
        found = self.head(url)
        return None if found is None else found.size

    def head(self, url: str) -> Part | None:
        """ETag and size of an object, None where there is none."""
        try:
            with _named(url):
                found = self._client().head_object(Bucket=self.name, Key=self.key(url))
        except RemoteError as error:
            if _status(error.__cause__) == 404:
                return None
            raise
        return Part(0, found["ETag"], found["ContentLength"])

    def put(self, url: str, data: bytes) -> None:
        """Write a small object whole."""
        with _named(url):
            self._client().put_object(Bucket=self.name, Key=self.key(url), Body=data, ContentMD5=_md5(data))

    def get(self, url: str, limit: int = SMALL_BYTES) -> bytes | None:
        """A small object whole; None where there is none."""
        found = self.head(url)
        if found is None:
            return None
        if found.size > limit:
            raise RemoteError(f"the object has {found.size:,} bytes, at most {limit:,} were expected", url=url)
        with _named(url):
            answer = self._client().get_object(Bucket=self.name, Key=self.key(url), IfMatch=found.etag)
            return bytes(answer["Body"].read())

    def get_range(self, url: str, start: int, size: int) -> bytes:
        """`size` bytes of an object from `start` on, fewer where it ends before."""
        with _named(url):
            answer = self._client().get_object(
                Bucket=self.name, Key=self.key(url), Range=f"bytes={start}-{start + size - 1}"
            )
            return bytes(answer["Body"].read())

    def delete(self, url: str) -> None:
        """Remove an object, if it is there."""
        with _named(url):
            self._client().delete_object(Bucket=self.name, Key=self.key(url))

    # Uploads: objects that appear whole, or not at all.

    def begin(self, url: str) -> str:
        """A new upload; its id."""
        with _named(url):
            return str(self._client().create_multipart_upload(Bucket=self.name, Key=self.key(url))["UploadId"])

    def write_part(self, url: str, upload: str, number: int, data: Any) -> Part:
        """Send one part, from 1 on, whole; what the server called it. It compares the MD5."""
        with _named(url):
            answer = self._client().upload_part(
                Bucket=self.name,
                Key=self.key(url),
                UploadId=upload,
                PartNumber=number,
                Body=bytes(data),
                ContentMD5=_md5(data),
            )
        return Part(number, answer["ETag"], len(memoryview(data).cast("B")))

    def parts(self, url: str, upload: str) -> list[Part] | None:
        """What an upload has so far, by number; None where it is gone: completed, or given up."""
        found: list[Part] = []
        try:
            with _named(url):
                pages = self._client().get_paginator("list_parts")
                for page in pages.paginate(Bucket=self.name, Key=self.key(url), UploadId=upload):
                    found += [Part(one["PartNumber"], one["ETag"], one["Size"]) for one in page.get("Parts", [])]
        except RemoteError as error:
            if _status(error.__cause__) == 404:
                return None
            raise
        return sorted(found)

    def complete(self, url: str, upload: str, parts: list[Part]) -> str:
        """Let the object appear; its ETag."""
        listed = [{"PartNumber": part.number, "ETag": part.etag} for part in parts]
        with _named(url):
            answer = self._client().complete_multipart_upload(
                Bucket=self.name, Key=self.key(url), UploadId=upload, MultipartUpload={"Parts": listed}
            )
        return str(answer["ETag"])

    def uploads(self, url: str) -> list[str]:
        """The uploads of this very object that are under way, the oldest first."""
        key = self.key(url)
        with _named(url):
            answer = self._client().list_multipart_uploads(Bucket=self.name, Prefix=key)
        found = [one for one in answer.get("Uploads", []) if one["Key"] == key]
        return [one["UploadId"] for one in sorted(found, key=lambda one: str(one.get("Initiated", "")))]

    def abort(self, url: str, upload: str) -> None:
        """Give an upload up; nothing where it is gone already."""
        try:
            with _named(url):
                self._client().abort_multipart_upload(Bucket=self.name, Key=self.key(url), UploadId=upload)
        except RemoteError as error:
            if _status(error.__cause__) != 404:
                raise

    def _client(self) -> Any:
        key = os.getpid(), self.url.access, environment()
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = _new_client(self.url)
        return client


def _new_client(url: Url) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise UsageError(f"writing to a bucket needs the extra: pip install 'trainload[upload]' ({error})") from error
    known = credentials_of(url)
    names = {
        "endpoint": "endpoint_url",
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
        "session_token": "aws_session_token",
        "region": "region_name",
    }
    given = {theirs: known[ours] for ours, theirs in names.items() if ours in known}
    # Sums of whole parts are sent as MD5, which every server knows.
    config = Config(
        retries={"max_attempts": 5, "mode": "standard"},
        connect_timeout=10,
        read_timeout=60,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return boto3.client("s3", config=config, **given)


@contextmanager
def _named(url: str) -> Iterator[None]:
    """Errors of boto3 as ours, with the object's name."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise RemoteError(f"the bucket refused it: {error}", url=url) from error


def _status(error: BaseException | None) -> int:
    response = getattr(error, "response", None) or {}
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _md5(data: Any) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
