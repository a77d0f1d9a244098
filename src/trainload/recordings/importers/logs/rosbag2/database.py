"""The SQLite file of a ROS 2 bag: topics, definitions, and messages by id, behind damaged pages and torn ends too.

SQLite has no checksums, but refuses pages whose structure is broken. rosbag2 numbers messages 1, 2, 3 ..., so ids tell
how many are missing. Source: the schema of rosbag2_storage_sqlite3, and https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainload.recordings.format import rules
from trainload.recordings.importers.source import Damage

MAGIC = b"SQLite format 3\0"
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the latter where the error text itself quotes damaged bytes
_LAST_ID = (1 << 63) - 1
_MAX_GAP = 1000  # between the ids of neighbours, unless rows were deleted from the bag
_RUN = 20  # rows after a larger gap that prove it
_ROWS = f"SELECT id, {{}} FROM messages WHERE id BETWEEN ? AND {_LAST_ID} AND typeof(id) = 'integer' ORDER BY id"


def page_bytes(head: bytes) -> int:
    """The size of a page, by the first bytes of a database; 0 where they are none."""
    size = int.from_bytes(head[16:18], "big") if head.startswith(MAGIC) else 0
    return 65536 if size == 1 else size


class BagDatabase:
    """An open bag file. path: where it lies; name: what messages call it. Raises FormatError where it is not SQLite."""

    def __init__(self, path: Path, name: str) -> None:
        with path.open("rb") as file:
            begin = file.read(len(MAGIC))
        if begin != MAGIC:
            raise rules.BAG2_MAGIC.broken(field="magic", offset=0, found=begin, expected=MAGIC, path=name)
        self.name = name
        self.damaged = False  # as far as `rows` has found
        self._bag = _connect(path)

    def topics(self) -> list[dict[str, Any]]:
        """Every column by its name. Raises one of UNREADABLE."""
        return [dict(row) for row in self._bag.execute("SELECT * FROM topics")]

    def definitions(self) -> dict[str, tuple[str, bytes]]:
        """Encoding and text by type; {} in bags of before 2023, which have none."""
        try:
            rows = self._bag.execute("SELECT topic_type, encoding, encoded_message_definition FROM message_definitions")
            return {name: (str(encoding), str(text).encode()) for name, encoding, text in rows}
        except UNREADABLE:
            return {}

    def last_id(self) -> int:
        """The id of the last message that can be reached, 0 where none can: for progress alone."""
        try:
            found = self._bag.execute("SELECT max(id) FROM messages").fetchone()[0]
            return found if isinstance(found, int) else 0
        except UNREADABLE:
            return 0

    def rows(self, columns: str, damage: Damage) -> Iterator[Any]:
        """(id, *columns) of the messages in the order of their ids. What cannot be read is counted and passed over."""
        order, place = _Order(self.name, damage), 1
        while True:
            try:
                for row in self._bag.execute(_ROWS.format(columns), (place,)):
                    if row[0] == order.next_id and order.calm:
                        order.next_id += 1
                        yield row
                    else:
                        yield from order.sound(row)
                yield from order.rest()
                self.damaged = self.damaged or order.refused
                return
            except UNREADABLE as error:
                self.damaged = True
                order.doubt()
                place = max(place, order.next_id)
                if place > _LAST_ID:
                    damage.add(f"{self.name}: no message behind {_LAST_ID:,} can be read: {error}")
                    return
                row = self._row_at(place, columns)
                if row is not None:  # Python's cursor steps ahead: the row before the damage
                    yield from order.sound(row)
                    place += 1
                    continue
                found = self._readable_after(place)
                if found is None:
                    damage.add(f"{self.name}: no message from {place:,} on can be read: {error}")
                    return
                damage.add(f"{self.name}: messages {place:,} to {found - 1:,}: {error}")
                place = found

    def close(self) -> None:
        self._bag.close()

    def _row_at(self, place: int, columns: str) -> Any:
        """The row of that id, None where it is not there or cannot be read."""
        try:
            return self._bag.execute(f"SELECT id, {columns} FROM messages WHERE id = ?", (place,)).fetchone()
        except UNREADABLE:
            return None

    def _readable_after(self, bad: int) -> int | None:
        """An id behind the damage at `bad` from which on can be read, None where there is none."""
        try:
            return None if self._first_from(bad) is None else bad + 1  # one is there, but not its data
        except UNREADABLE:
            return self._behind_page(bad)

    def _behind_page(self, bad: int) -> int | None:
        step = 1
        while not self._reads_from(bad + step):
            bad, step = bad + step, step * 2
            if bad + step > _LAST_ID:
                return None
        good = bad + step
        while good - bad > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if self._reads_from(middle) else (good, middle)
        return good

    def _reads_from(self, place: int) -> bool:
        try:
            self._first_from(place)
        except UNREADABLE:
            return False
        return True

    def _first_from(self, place: int) -> int | None:
        """Its id; None behind the last one. Raises one of UNREADABLE, for an id far from `place` too."""
        row = self._bag.execute(_ROWS.format("1") + " LIMIT 1", (place,)).fetchone()
        if row is not None and row[0] - place > _MAX_GAP:
            raise sqlite3.DatabaseError(f"the message after {place:,} calls itself {row[0]:,}")
        return None if row is None else int(row[0])

    def __enter__(self) -> BagDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Order:
    """Passes on rows whose ids go up: ids in a damaged page are anything. Counts the ids that are missing there.

    next_id: what the next row should have. refused: True where a row was left out.
    """

    def __init__(self, name: str, damage: Damage) -> None:
        self.next_id = 1
        self.refused = False
        self._name = name
        self._damage = damage
        self._held: Any = None  # not the next one; sound if the row after it has a larger id
        self._doubted = False  # True: ids that are missing before the next sound row are lost
        self._before_jump = 1  # the next_id to go back to ...
        self._since_jump = _RUN  # ... while fewer rows than these followed a jump

    @property
    def calm(self) -> bool:
        """True where the next row is expected and nothing is in doubt."""
        return self._held is None and not self._doubted and self._since_jump >= _RUN

    def sound(self, row: Any) -> Iterator[Any]:
        """`row`, or the one that was held and it, or neither."""
        if self._held is not None:
            if row[0] > self._held[0]:
                yield from self.rest()
            else:
                self._refuse(self._held)
        if row[0] < self.next_id and self._since_jump < _RUN:
            self.next_id, self._since_jump = self._before_jump, _RUN  # the jump was two damaged ids
        if row[0] < self.next_id:
            self._refuse(row)
        elif row[0] == self.next_id:
            yield self._passed(row)
        else:
            self._held = row

    def rest(self) -> Iterator[Any]:
        """The row that was held."""
        if self._held is not None:
            yield self._passed(self._held)

    def doubt(self) -> None:
        """There is damage behind the last row; a row that was held is not confirmed any more."""
        if self._held is not None:
            self._refuse(self._held)
        self._doubted = True

    def _passed(self, row: Any) -> Any:
        if row[0] - self.next_id > _MAX_GAP:
            self._before_jump, self._since_jump = self.next_id, 0
        self._since_jump += 1
        if self._doubted:
            self._damage.frames += row[0] - self.next_id
        self.next_id, self._held, self._doubted = row[0] + 1, None, False
        return row

    def _refuse(self, row: Any) -> None:
        self._damage.add(f"{self._name}: message {row[0]:,} where {self.next_id:,} is due: a damaged page")
        self._held, self._doubted, self.refused = None, True, True


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
