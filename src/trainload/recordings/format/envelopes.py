"""What a log wrote around each payload, so that an imported message can be given back byte for byte.

An importer keeps the picture, the points or the numbers of a message as the payload of its stream, and everything else
in the stream ENVELOPE_STREAM: one record per message, in the order of the log, many records to a frame.

| size | field | |
|---|---|---|
| 2 | stream_id | the stream that has the payload |
| 4 | stream_index | which of its frames |
| 8 | log_ns | when the log received the message |
| 8 | publish_ns | when it was published |
| 4 | sequence | the publisher's counter |
| 1 | join | how payload and shell make the message: PAYLOAD, SPLICE, SPLICE_BASE64 or SHELL |
| 4 | offset | where in the shell the payload belongs (SPLICE, SPLICE_BASE64) |
| 4 | shell_size | bytes of shell that follow |
| 4 | channel | v2 alone: the channel (a place in META import.channels) that the message came from |

The encoding of ENVELOPE_STREAM says which version its records have. Imports write v2 since publishers of one topic
share a stream; in v1 every stream has the one channel that META names.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from trainload.errors import FormatError
from trainload.recordings.format import rules

IMPORT_PREFIX = "import/"  # of streams whose times no sensor gave: what an import keeps beside the sensors'
ENVELOPE_STREAM = "import/envelopes"
RECORD_STREAM = "import/records"  # attachments and metadata of an MCAP log, each led by its opcode
ENVELOPE_ENCODING = "trainload.envelopes.v2"
ENVELOPE_ENCODINGS = ("trainload.envelopes.v1", ENVELOPE_ENCODING)
RECORD_ENCODING = "mcap-record"

PAYLOAD = 0  # the payload is the message
SPLICE = 1  # shell[:offset] + payload + shell[offset:]
SPLICE_BASE64 = 2  # the same with the payload in base64
SHELL = 3  # the shell is the message; the payload was decoded from it
_RECORD = struct.Struct("<HIQQIBII")
_RECORD_2 = struct.Struct("<HIQQIBIII")


@dataclass(frozen=True, slots=True)
class Envelope:
    """One record; see the table above. channel: None in version 1."""

    stream_id: int
    stream_index: int
    log_ns: int
    publish_ns: int
    sequence: int
    join: int
    offset: int
    shell: bytes
    channel: int | None = None

    def to_bytes(self) -> bytes:
        """The record of version 2 with its shell."""
        return (
            _RECORD_2.pack(
                self.stream_id,
                self.stream_index,
                self.log_ns,
                self.publish_ns,
                self.sequence,
                self.join,
                self.offset,
                len(self.shell),
                self.channel or 0,
            )
            + self.shell
        )

    def message(self, payload: bytes | memoryview) -> bytes:
        """The message as the log had it."""
        if self.join == PAYLOAD:
            return bytes(payload)
        if self.join == SHELL:
            return self.shell
        middle = base64.b64encode(payload) if self.join == SPLICE_BASE64 else payload
        return b"".join((self.shell[: self.offset], middle, self.shell[self.offset :]))


def envelopes_from_bytes(data: bytes | memoryview, encoding: str, *, path: str = "") -> Iterator[Envelope]:
    """Iterate over the records of one frame. Raises FormatError for one that is cut off or contradicts itself.

    encoding: of their stream, one of ENVELOPE_ENCODINGS.
    """
    view, place = memoryview(data), 0
    record = _RECORD_2 if encoding == ENVELOPE_ENCODING else _RECORD
    while place < len(view):
        end = place + record.size
        if end > len(view):
            raise _broken("envelope", place, f"{len(view) - place} bytes", f"{record.size} bytes", path)
        stream_id, index, log_ns, publish_ns, sequence, join, offset, shell_size, *more = record.unpack_from(
            view, place
        )
        if join > SHELL:
            raise _broken("envelope.join", place, join, f"0 to {SHELL}", path)
        if shell_size > len(view) - end or offset > shell_size:
            raise _broken("envelope.shell_size", place, shell_size, f"{offset} to {len(view) - end}", path)
        shell = bytes(view[end : end + shell_size])
        yield Envelope(stream_id, index, log_ns, publish_ns, sequence, join, offset, shell, *more)
        place = end + shell_size


def _broken(field: str, offset: int, found: object, expected: object, path: str) -> FormatError:
    return rules.ENVELOPE.broken(field=field, offset=offset, found=found, expected=expected, path=path)
