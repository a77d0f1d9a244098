"""Buckets: signed URLs and listings, by obstore, which knows the clouds' credentials. Reads go elsewhere (remote.py).

obstore runs threads of its own, which a forked child lacks: there it would wait for ever, so it is not asked.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from configparser import ConfigParser
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from trainload.errors import ForkSafetyError, RemoteError, UsageError
from trainload.storage.location import Access, Url

SIGNED_FOR = timedelta(hours=12)  # far longer than an epoch waits between two reads; a shorter one ends with a 403
_MAGIC = frozenset("*?[")
_PLAIN = "skip_signature"  # public buckets
_INSTANCE = "instance_credentials"  # ours: ask the machine's metadata service
_at_work_in: list[int] = []  # the process in which obstore was first at work, and has its threads


def sign(url: Url, method: str = "GET") -> str:
    """A URL of https that any client may ask for SIGNED_FOR, or the plain one of a public bucket."""
    bucket, key = split(url)
    options = dict(url.access.storage)
    if options.get(_PLAIN) == "true":
        return _public_url(url, bucket, key, options)
    store = _store(url)
    import obstore

    try:
        return str(obstore.sign(store, method, key, SIGNED_FOR))  # type: ignore[call-overload]
    except Exception as error:
        raise RemoteError(f"the URL cannot be signed: {_in_short(error)}", url=url) from error


def listed(pattern: Url) -> list[Url]:
    """The objects that a pattern names, or that lie right under a URL with a final `/`, sorted by name.

    `*`, `?` and `[...]` stand for no `/`.
    """
    _, key = split(pattern)
    start = len(key) if key.endswith("/") else next((n for n, letter in enumerate(key) if letter in _MAGIC), len(key))
    folder = key[: key.rfind("/", 0, start) + 1]
    wanted = key if not key.endswith("/") else key + "*"
    root = str(pattern)[: len(str(pattern)) - len(key)]
    found = [name for name in _names(pattern, folder) if _matches(name, wanted)]
    return [Url(root + name, pattern.access) for name in sorted(found)]


def is_pattern(url: str) -> bool:
    """True where a bucket's URL stands for several objects."""
    return urlsplit(url).scheme in ("s3", "gs", "az") and (url.endswith("/") or not _MAGIC.isdisjoint(url))


def split(url: str) -> tuple[str, str]:
    """Bucket and key. Raises UsageError for a URL without a bucket."""
    scheme, _, rest = str(url).partition("://")
    bucket, _, key = rest.partition("/")
    if not bucket:
        raise UsageError(f"a URL names a bucket and an object in it ({scheme}://BUCKET/NAME), not {url}")
    return bucket, key


def _matches(name: str, pattern: str) -> bool:
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def below(folder: Url) -> Iterator[tuple[str, int]]:
    """The path below a URL that ends with `/`, and the size in bytes, of every object there, in no order."""
    _, key = split(folder)
    for path, size in _entries(folder, key):
        if path.startswith(key) and not path.endswith("/"):
            yield path[len(key) :], size


def _names(url: Url, folder: str) -> Iterator[str]:
    return (path for path, _ in _entries(url, folder))


def _entries(url: Url, folder: str) -> Iterator[tuple[str, int]]:
    store = _store(url)
    import obstore

    try:
        for batch in obstore.list(store, folder or None, chunk_size=1000):
            for entry in batch:
                yield entry["path"], entry["size"]
    except Exception as error:
        raise RemoteError(f"the bucket cannot be listed: {_in_short(error)}", url=url) from error


def environment() -> frozenset[tuple[str, str]]:
    """What of the environment clients go by: another one makes another client."""
    return frozenset(item for item in os.environ.items() if item[0].startswith(("AWS_", "GOOGLE_", "AZURE_")))


def credentials_of(url: Url) -> dict[str, str]:
    """The options of a bucket's client, an AWS profile's among them. Raises UsageError where none can be seen."""
    options = _with_credentials(urlsplit(url).scheme, dict(url.access.storage))
    endpoint = _endpoint(options)
    return {**options, **({"endpoint": endpoint} if endpoint else {})}


def _store(url: Url) -> Any:
    """The client of a bucket, one in a process. Raises ForkSafetyError where it would hang."""
    if _at_work_in and _at_work_in[0] != os.getpid():
        raise ForkSafetyError(
            "this process was forked from one that had read from a bucket, so its client would wait for ever: start "
            f"workers by spawn or forkserver, or open the set before the fork: {url}"
        )
    scheme = urlsplit(url).scheme
    bucket, _ = split(url)
    return _new_store(scheme, bucket, url.access, environment())


@lru_cache(maxsize=32)
def _new_store(scheme: str, bucket: str, access: Access, known: frozenset[tuple[str, str]]) -> Any:
    try:
        from obstore.store import from_url
    except ImportError as error:
        raise UsageError(f"reading from buckets needs the extra: pip install 'trainload[remote]' ({error})") from error
    options = dict(access.storage)
    _at_work_in[:] = [os.getpid()]
    config = _with_credentials(scheme, options)
    client = {"allow_http": True} if _endpoint(options).startswith("http://") else {}
    try:
        return from_url(f"{scheme}://{bucket}", client_options=client, **config)  # type: ignore[call-overload]
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            names = ", ".join(config) or "none"
            raise UsageError(
                f"storage has an option that {scheme}:// does not know (given: {names}): {error}"
            ) from error
        raise


def _in_short(error: Exception) -> str:
    """The first line: what follows is a picture of the client's inside."""
    return str(error).partition("\n")[0][:300]


def _endpoint(options: dict[str, str]) -> str:
    return options.get("endpoint") or options.get("aws_endpoint") or os.environ.get("AWS_ENDPOINT_URL", "")


# What shows that credentials are there without asking the machine's metadata service, which only a cloud's machines
# have and which elsewhere costs a wait, or gives a stranger's answer.
_SIGNS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
    "gs": ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
    "az": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_ID", "AZURE_STORAGE_TOKEN"),
}
_OPTIONS = ("access_key", "secret", "token", "service_account", "application_credentials", "sas", "client_id", "use_")


def _with_credentials(scheme: str, options: dict[str, str]) -> dict[str, str]:
    """The options with credentials that can be seen. Raises UsageError where there are none and none were asked for."""
    asked = options.pop(_INSTANCE, "false") == "true"
    given = any(word in name for name in options for word in (*_OPTIONS, "account_key"))
    if asked or given or any(os.environ.get(name) for name in _SIGNS[scheme]):
        return options
    if scheme == "s3" and (profile := _profile()):
        return {**profile, **options}
    if scheme == "gs" and (Path.home() / ".config/gcloud/application_default_credentials.json").exists():
        return options
    raise UsageError(
        f"no credentials for {scheme}:// are given, nor in the environment ({', '.join(_SIGNS[scheme])}): give "
        f"storage={{...}}; of a public bucket {{'{_PLAIN}': 'true'}}, of this machine's role {{'{_INSTANCE}': 'true'}}"
    )


def _profile() -> dict[str, str]:
    """Keys of the AWS profile that the environment names, of "default" otherwise; {} where the files have none."""
    name = os.environ.get("AWS_PROFILE", "default")
    home = Path.home() / ".aws"
    keys, config = ConfigParser(interpolation=None), ConfigParser(interpolation=None)
    keys.read(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials")
    config.read(os.environ.get("AWS_CONFIG_FILE") or home / "config")
    found = dict(keys[name]) if keys.has_section(name) else {}
    section = name if name == "default" else f"profile {name}"
    if config.has_section(section) and "region" in config[section]:
        found.setdefault("region", config[section]["region"])
    names = {
        "aws_access_key_id": "access_key_id",
        "aws_secret_access_key": "secret_access_key",
        "aws_session_token": "session_token",
        "region": "region",
    }
    given = {ours: found[theirs] for theirs, ours in names.items() if theirs in found}
    return given if "access_key_id" in given else {}


def _public_url(url: Url, bucket: str, key: str, options: dict[str, str]) -> str:
    """The https URL of an object in a public bucket."""
    path = quote(key)
    scheme, endpoint = urlsplit(url).scheme, _endpoint(options).rstrip("/")
    if scheme == "s3":
        region = options.get("region") or options.get("aws_region") or "us-east-1"
        return f"{endpoint}/{bucket}/{path}" if endpoint else f"https://{bucket}.s3.{region}.amazonaws.com/{path}"
    if scheme == "gs":
        return f"{endpoint or 'https://storage.googleapis.com'}/{bucket}/{path}"
    account = options.get("account_name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    if not account and not endpoint:
        raise UsageError(f"a public container needs storage={{'account_name': ...}}: {url}")
    return f"{endpoint or f'https://{account}.blob.core.windows.net'}/{bucket}/{path}"
