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

    rule: the sentence of the spec that is broken. field: the spec's name of the place. offset: bytes from the start of
    the file, or None where no single place is at fault. found, expected: values as text. path: the file, last.
    """

    def __init__(
        self, rule: str, *, field: str, offset: int | None, found: object, expected: object, path: str = ""
    ) -> None:
        super().__init__(rule)
        self.rule = rule
        self.field = field
        self.offset = offset
        self.found = str(found)
        self.expected = str(expected)
        self.path = path

    def __str__(self) -> str:
        place = self.field if self.offset is None else f"{self.field} at byte {self.offset:,}"
        text = f"{self.rule} ({place}: found {self.found}, expected {self.expected})"
        return f"{text}: {self.path}" if self.path else text

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_format_error, (self.rule, self.field, self.offset, self.found, self.expected, self.path)


def _rebuild_format_error(
    rule: str, field: str, offset: int | None, found: str, expected: str, path: str
) -> FormatError:
    return FormatError(rule, field=field, offset=offset, found=found, expected=expected, path=path)


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
