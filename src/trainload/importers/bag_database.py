"""The SQLite file of a ROS 2 bag: topics, definitions, and messages by id, behind damaged pages and torn ends too.

SQLite has no checksums, but refuses pages whose structure is broken. rosbag2 numbers messages 1, 2, 3 ..., so ids tell
how many are missing. Source: the schema of rosbag2_storage_sqlite3, and https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainload.errors import FormatError
from trainload.importers.source import Damage

MAGIC = b"SQLite format 3\0"
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the latter where the error text itself quotes damaged bytes
_LAST_ID = (1 << 63) - 1
_MAX_JUMP = 1 << 24  # between the ids of neighbours; more is a damaged id


class BagDatabase:
    """An open bag file. path: where it lies; name: what messages call it. Raises FormatError where it is not SQLite."""

    def __init__(self, path: Path, name: str) -> None:
        with path.open("rb") as file:
            begin = file.read(len(MAGIC))
        if begin != MAGIC:
            raise FormatError(
                "a ROS 2 bag is an SQLite file", field="magic", offset=0, found=begin, expected=MAGIC, path=name
            )
        self.name = name
        self.damaged = False  # as far as `rows` has found
        self._bag = _connect(path)

    def topics(self) -> list[sqlite3.Row]:
        """Raises one of UNREADABLE."""
        return self._bag.execute("SELECT * FROM topics").fetchall()

    def definitions(self) -> dict[str, tuple[str, bytes]]:
        """Encoding and text by type; {} in bags of before 2023, which have none."""
        try:
            rows = self._bag.execute("SELECT topic_type, encoding, encoded_message_definition FROM message_definitions")
            return {name: (encoding, str(text).encode()) for name, encoding, text in rows}
        except UNREADABLE:
            return {}

    def last_id(self) -> int:
        """The id of the last message that can be reached, 0 where none can: for progress alone."""
        try:
            return int(self._bag.execute("SELECT max(id) FROM messages").fetchone()[0] or 0)
        except UNREADABLE:
            return 0

    def rows(self, columns: str, damage: Damage) -> Iterator[Any]:
        """(id, *columns) of the messages in the order of their ids. What cannot be read is counted and passed over."""
        place, begun = 0, False
        while True:
            try:
                for row in self._bag.execute(f"SELECT id, {columns} FROM messages WHERE id >= ? ORDER BY id", (place,)):
                    if begun and not place <= row[0] < place + _MAX_JUMP:
                        damage.add(f"{self.name}: message {row[0]:,} after {place - 1:,} is out of order", frames=1)
                        continue
                    place, begun = row[0] + 1, True
                    yield row
                return
            except UNREADABLE as error:
                self.damaged = True
                found = self._readable_after(place)
                if found is None:
                    damage.add(f"{self.name}: no message from {place:,} on can be read: {error}")
                    return
                lost = found - place if begun and found - place < _MAX_JUMP else 0
                damage.add(f"{self.name}: messages {place:,} to {found - 1:,}: {error}", frames=lost)
                place = found

    def close(self) -> None:
        self._bag.close()

    def _readable_after(self, place: int) -> int | None:
        """The first id behind the damage at `place` that can be read from, None where there is none."""
        try:
            own = self._first_from(place)
        except UNREADABLE:
            return self._behind_page(place)
        return None if own is None else own + 1  # it is there; its data is not

    def _behind_page(self, bad: int) -> int | None:
        step = 1
        while True:
            good = bad + step
            if good > _LAST_ID:
                return None
            try:
                found = self._first_from(good)
                break
            except UNREADABLE:
                bad, step = good, step * 2
        while good - bad > 1:
            middle = (good + bad) // 2
            try:
                found, good = self._first_from(middle), middle
            except UNREADABLE:
                bad = middle
        return found

    def _first_from(self, place: int) -> int | None:
        row = self._bag.execute("SELECT id FROM messages WHERE id >= ? ORDER BY id LIMIT 1", (place,)).fetchone()
        return None if row is None else int(row[0])

    def __enter__(self) -> BagDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _connect(path: Path) -> sqlite3.Connection:
    """Read-only, without a trace beside the file. What a killed recorder left in the write-ahead log belongs to it."""
    log = path.with_name(path.name + "-wal")
    logged = log.is_file() and log.stat().st_size > 0
    how = "mode=ro&vfs=unix-none" if logged else "mode=ro&immutable=1"
    bag = sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True)
    bag.row_factory = sqlite3.Row
    bag.text_factory = lambda text: text.decode("utf-8", "replace")
    try:
        if logged:
            bag.execute("PRAGMA locking_mode = EXCLUSIVE")  # else the log's index would be made as a file
        bag.execute("PRAGMA writable_schema = 1")  # else SQLite reads nothing of a file that lost its end
    except UNREADABLE:
        pass  # every query will say it again
    return bag
