"""What can go wrong, as types. Bad bytes: FormatError. A bad picture or frame: SampleError. Misuse: UsageError.

The operating system speaks for itself: OSError passes through. Every error pickles.
"""

from __future__ import annotations


class TrainloadError(Exception):
    """The base of every error that trainload itself raises."""


class UsageError(TrainloadError):
    """The caller asked for something that cannot be done; the message says what to do instead."""


class FormatError(TrainloadError):
    """Bytes that break the format's law.

    rule: the sentence of the spec that is broken. rule_id: its stable name, as docs/errors.md lists it. field: the
    spec's name of the place. offset: bytes from the start of the file, or None where no single place is at fault.
    found, expected: values as text. path: the file, last.
    """

    def __init__(
        self,
        rule: str,
        *,
        rule_id: str = "",
        field: str,
        offset: int | None,
        found: object,
        expected: object,
        path: str = "",
    ) -> None:
        super().__init__(rule)
        self.rule = rule
        self.rule_id = rule_id
        self.field = field
        self.offset = offset
        self.found = str(found)
        self.expected = str(expected)
        self.path = path

    def __str__(self) -> str:
        place = self.field if self.offset is None else f"{self.field} at byte {self.offset:,}"
        name = f" [{self.rule_id}]" if self.rule_id else ""
        text = f"{self.rule}{name} ({place}: found {self.found}, expected {self.expected})"
        return f"{text}: {self.path}" if self.path else text

    def __reduce__(self) -> tuple[object, ...]:
        place = (self.field, self.offset, self.found, self.expected, self.path)
        return _rebuild_format_error, (type(self), self.rule, self.rule_id, *place)


def _rebuild_format_error(
    kind: type[FormatError],
    rule: str,
    rule_id: str,
    field: str,
    offset: int | None,
    found: str,
    expected: str,
    path: str,
) -> FormatError:
    return kind(rule, rule_id=rule_id, field=field, offset=offset, found=found, expected=expected, path=path)


class TruncatedError(FormatError):
    """The bytes end before what they announce: a file cut short, or never finished."""


class ChecksumError(FormatError):
    """A checksum is not that of its bytes: damage on the way or on the disk."""


class LimitError(FormatError):
    """A number is larger than any good file needs: refused before memory is taken for it."""


class SampleError(TrainloadError):
    """One picture or frame that cannot be used: which one, where it lies, where it came from and why.

    sample: position in the set. block: block or window number, None for a folder. source: path or stream it came from.
    """

    def __init__(self, reason: str, *, sample: int, block: int | None = None, source: str = "", path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.sample = sample
        self.block = block
        self.source = source
        self.path = path

    def __str__(self) -> str:
        block = "" if self.block is None else f" in block {self.block}"
        source = f" (from {self.source})" if self.source else ""
        return f"sample {self.sample}{block}{source}: {self.reason}: {self.path}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_sample_error, (self.reason, self.sample, self.block, self.source, self.path)


def _rebuild_sample_error(reason: str, sample: int, block: int | None, source: str, path: str) -> SampleError:
    return SampleError(reason, sample=sample, block=block, source=source, path=path)


class RemoteError(TrainloadError, OSError):
    """An object that could not be read from its server, after as many tries as that cause deserves.

    url: without its query, which may hold a signature. reason: the last cause, with the server's request id where it
    gave one. tries: requests that were made.
    """

    def __init__(self, reason: str, *, url: str, tries: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.url = url
        self.tries = tries

    def __str__(self) -> str:
        after = f" (after {self.tries} tries)" if self.tries > 1 else ""
        return f"{self.reason}{after}: {self.url}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_remote_error, (self.reason, self.url, self.tries)


def _rebuild_remote_error(reason: str, url: str, tries: int) -> RemoteError:
    return RemoteError(reason, url=url, tries=tries)


class DatasetChangedError(TrainloadError):
    """An object is no longer the one that was opened: its bytes must not be mixed with those read before.

    old, new: what the server calls the two states (ETag and size), new "" where it does not say.
    """

    def __init__(self, url: str, old: str, new: str) -> None:
        super().__init__(url, old, new)
        self.url = url
        self.old = old
        self.new = new

    def __str__(self) -> str:
        now = f"is {self.new} now" if self.new else "is another one now"
        return f"the object was {self.old} when it was opened and {now}; open it again: {self.url}"


class ForkSafetyError(TrainloadError):
    """A forked process would hang in a library that its parent has used; the message names the way out."""
