"""Damaged ROS bags: what is sound comes in, in order, what is not is counted, and nothing comes in twice."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import struct
from pathlib import Path

import lz4.frame
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sensor_messages import ROS1, ROS2, TYPES, acquired
from test_import_rosbags import messages_of
from trainload.errors import FormatError
from trainload.recordings.importers.logs.rosbag1.source import Rosbag1Source
from trainload.recordings.importers.logs.rosbag2.source import Rosbag2Source, open_rosbag2
from trainload.recordings.importers.source import SourceFrame

rosbag1 = pytest.importorskip("rosbags.rosbag1")
from rosbags import rosbag2  # noqa: E402

COUNT = 600
PAGE = 4096
Row = tuple[str, int, bytes]
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
spots = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 300), st.integers(0, 2**32)), min_size=1, max_size=3)


def rows(encapsulation: bytes) -> list[Row]:
    """Messages that say which they are; every 50th is longer than a page of SQLite."""
    rng = random.Random(3)
    sizes = [rng.randrange(50, 300) if k % 50 else 9000 for k in range(COUNT)]
    return [
        ("/note", acquired(k), encapsulation + b"%06d of the bag " % k + rng.randbytes(n)) for k, n in enumerate(sizes)
    ]


EVERY2, EVERY1 = rows(b"\0\1\0\0"), rows(b"")
SET2, SET1 = set(EVERY2), set(EVERY1)


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> Path:
    bag = tmp_path_factory.mktemp("bag") / "bag"
    with rosbag2.Writer(bag, version=9) as writer:
        connection = writer.add_connection("/note", TYPES["/note"], typestore=ROS2)
        for _, time, data in EVERY2:
            writer.write(connection, time, data)
    return next(bag.glob("*.db3"))


@pytest.fixture(scope="module", params=["", "BZ2", "LZ4"])
def bag1(request, tmp_path_factory) -> Path:
    """Chunks of about 20 messages."""
    path = tmp_path_factory.mktemp("bag") / "drive.bag"
    writer = rosbag1.Writer(path)
    writer.chunk_threshold = 4000
    if request.param:
        writer.set_compression(rosbag1.Writer.CompressionFormat[request.param])
    if request.param == "LZ4":  # as roslz4 does, and rosbags does not
        writer.compressor = lambda data: lz4.frame.compress(data, content_checksum=True)
    with writer:
        connection = writer.add_connection("/note", TYPES["/note"], typestore=ROS1)
        for _, time, data in EVERY1:
            writer.write(connection, time, data)
    return path


def read2(path: Path, data: bytes) -> tuple[list[Row], Rosbag2Source]:
    path.write_bytes(data)
    source = Rosbag2Source(path)
    return messages_of(source), source


def table_pages(data: bytes) -> list[int]:
    """Leaf pages with messages; the first one or two are of the smaller tables."""
    return [
        page
        for page in range(len(data) // PAGE)
        if data[page * PAGE] == 0x0D and b" of the bag " in data[page * PAGE : (page + 1) * PAGE]
    ]


def numbers(found: list[Row], every: list[Row]) -> list[int]:
    place = {row: k for k, row in enumerate(every)}
    return [place[row] for row in found]


def test_a_lost_page_costs_its_own_messages_alone(database, tmp_path):
    database = database.read_bytes()
    pages = table_pages(database)
    for page in (pages[3], pages[len(pages) // 2], pages[-1]):
        damaged = bytearray(database)
        damaged[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
        found, source = read2(tmp_path / "bag.db3", bytes(damaged))
        there = struct.unpack_from(">H", database, page * PAGE + 3)[0]  # cells of the leaf
        assert len(found) == COUNT - there
        assert numbers(found, EVERY2) == sorted(numbers(found, EVERY2))
        if page != pages[-1]:
            assert source.damage.frames == there


def test_a_message_whose_tail_is_lost_is_one_message_lost(database, tmp_path):
    database = database.read_bytes()
    damaged = bytearray(database)
    where = database.index(b"000300 of the bag")
    leaf = where // PAGE
    reach = database.index(EVERY2[300][2][5000:5100])  # on an overflow page
    assert reach // PAGE != leaf
    page = reach // PAGE
    before = next(
        k for k in range(len(database) // PAGE) if database[k * PAGE : k * PAGE + 4] == struct.pack(">I", page + 1)
    )
    struct.pack_into(">I", damaged, before * PAGE, 1 << 30)
    found, source = read2(tmp_path / "bag.db3", bytes(damaged))
    assert numbers(found, EVERY2) == [k for k in range(COUNT) if k != 300]
    assert source.damage.frames == 1


def test_a_database_that_is_cut_off_gives_what_lies_whole_before_the_cut(database, tmp_path):
    database = database.read_bytes()
    for share in (0.3, 0.6, 0.95):
        found, source = read2(tmp_path / "bag.db3", database[: int(len(database) * share)])
        there = numbers(found, EVERY2)
        assert there == sorted(there)
        gaps = set(range(there[-1])) - set(there)
        assert all(k % 50 == 0 for k in gaps)  # long ones, whose end lay behind the cut
        assert len(found) > COUNT * share / 2
        assert source.damage


def test_a_bag_from_which_messages_were_deleted_is_not_taken_for_damaged(database, tmp_path):
    rng = random.Random(9)
    for keep in ([0], [599], [3, 4], sorted(rng.sample(range(COUNT), 50)), list(range(0, COUNT, 100))):
        for far in (1, 50, 5000, 10**12):  # between the ids of neighbours
            path = tmp_path / "bag.db3"
            path.write_bytes(database.read_bytes())
            with sqlite3.connect(path) as edited:
                edited.execute(f"DELETE FROM messages WHERE id NOT IN ({','.join(str(k + 1) for k in keep)})")
                edited.execute("UPDATE messages SET id = -id * ?", (far,))
                edited.execute("UPDATE messages SET id = -id")
            edited.close()
            source = Rosbag2Source(path)
            assert messages_of(source) == [EVERY2[k] for k in keep]
            assert not source.damage
            assert source.survey()["/note"].frames == len(keep)


def test_metadata_counts_the_messages_that_a_cut_took(database, tmp_path):
    database = database.read_bytes()
    (tmp_path / "metadata.yaml").write_text(
        "rosbag2_bagfile_information:\n  storage_identifier: sqlite3\n  relative_file_paths:\n    - bag.db3\n"
        f"  message_count: {COUNT}\n"
    )
    (tmp_path / "bag.db3").write_bytes(database[: len(database) // 2])
    source = open_rosbag2(tmp_path)
    assert source.damage.frames == 0
    found = messages_of(source)
    assert source.damage.frames == COUNT - len(found)


@QUICK
@given(spots=spots)
def test_overwritten_bytes_of_a_database_cost_little_and_repeat_nothing(database, tmp_path, spots):
    database = database.read_bytes()
    damaged, touched = bytearray(database), set()
    for share, size, seed in spots:
        begin = 8 * PAGE + int(share * (len(database) - 8 * PAGE - size))  # behind the tables' roots
        damaged[begin : begin + size] = random.Random(seed).randbytes(size)
        touched |= {begin // PAGE, (begin + size - 1) // PAGE}
    found, _ = read2(tmp_path / "bag.db3", bytes(damaged))
    assert len({row[2] for row in found}) == len(found)
    order = numbers([row for row in found if row in SET2], EVERY2)
    assert order == sorted(order)
    messages = sum(
        struct.unpack_from(">H", database, page * PAGE + 3)[0] for page in touched if database[page * PAGE] == 0x0D
    )
    assert len(SET2 - set(found)) <= messages + 2 * len(touched)


def test_what_a_killed_recorder_left_in_the_write_ahead_log_comes_in_and_the_folder_stays_as_it_is(tmp_path):
    live, bag = tmp_path / "live.db3", tmp_path / "bag"
    bag.mkdir()
    recorder = sqlite3.connect(live)
    recorder.execute("PRAGMA journal_mode = WAL")
    recorder.execute("PRAGMA wal_autocheckpoint = 0")
    recorder.executescript(
        "CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT, serialization_format TEXT);"
        "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, data BLOB);"
        "INSERT INTO topics VALUES(1, '/note', 'std_msgs/msg/String', 'cdr');"
    )
    recorder.executemany("INSERT INTO messages(topic_id, timestamp, data) VALUES(1, ?, ?)", [r[1:] for r in EVERY2])
    recorder.commit()
    for end in ("", "-wal"):
        (bag / f"bag_0.db3{end}").write_bytes((tmp_path / f"live.db3{end}").read_bytes())
    recorder.close()
    before = {path.name: path.read_bytes() for path in bag.iterdir()}
    source = open_rosbag2(bag)
    assert source.survey()["/note"].frames == COUNT
    assert messages_of(source) == EVERY2
    assert not source.damage
    assert {path.name: path.read_bytes() for path in bag.iterdir()} == before
    (bag / "bag_0.db3-wal").write_bytes(before["bag_0.db3-wal"][:-5000])  # its last page is torn: nothing was committed
    assert not messages_of(open_rosbag2(bag)) or source.damage


def chunks_of(data: bytes) -> list[tuple[int, int]]:
    """[begin, end) of each chunk record."""
    found, place = [], 13
    while place < len(data):
        header = struct.unpack_from("<I", data, place)[0]
        size = struct.unpack_from("<I", data, place + 4 + header)[0]
        end = place + 8 + header + size
        if b"op=\x05" in data[place + 4 : place + 4 + header]:
            found.append((place, end))
        place = end
    return found


def read1(path: Path) -> tuple[list[Row], Rosbag1Source]:
    source = Rosbag1Source(path)
    return messages_of(source), source


def per_chunk(path: Path) -> list[int]:
    """How many messages each chunk has, as if it stood alone."""
    with rosbag1.Reader(path) as reader:
        infos = sorted(reader.chunk_infos, key=lambda info: info.pos)
        return [sum(info.connection_counts.values()) for info in infos]


def without_index(data: bytes) -> bytes:
    """As a recorder that was killed leaves it: the header tells of no index, and none is there."""
    place = data.index(b"index_pos=") + 10
    index = struct.unpack_from("<Q", data, place)[0]
    return data[:place] + bytes(8) + data[place + 8 : index]


@QUICK
@given(spots=spots, indexed=st.booleans())
def test_overwritten_bytes_of_a_ros1_bag_cost_the_chunks_they_touch_alone(bag1, tmp_path, spots, indexed):
    data = bag1.read_bytes()
    chunks, counts = chunks_of(data), per_chunk(bag1)
    data = data if indexed else without_index(data)
    damaged, touched = bytearray(data), set()
    for share, size, seed in spots:
        begin = 4200 + int(share * (len(data) - 4200 - size))  # behind the bag's header
        damaged[begin : begin + size] = random.Random(seed).randbytes(size)
        touched |= {k for k, (start, end) in enumerate(chunks) if start < begin + size and begin < end}
    path = tmp_path / "bad.bag"
    path.write_bytes(damaged)
    found, source = read1(path)
    begins = [sum(counts[:k]) for k in range(len(counts) + 1)]
    kept = [row for k in range(len(counts)) if k not in touched for row in EVERY1[begins[k] : begins[k + 1]]]
    assert {row[1:] for row in kept} <= {row[1:] for row in found}  # the topic was described in the first chunk
    assert len({row[2] for row in found}) == len(found)
    plain = b"compression=none" in data
    altered = {row[1:] for row in found} - {row[1:] for row in SET1}
    assert len(altered) <= (sum(counts[k] for k in touched) if plain else 0)  # ROS 1 has no checksum of plain chunks
    lost = COUNT - len(found)
    assert source.damage.frames <= lost
    assert not lost or source.damage.bytes > 0


def test_a_lost_chunk_is_counted_by_its_index(bag1, tmp_path):
    data = bag1.read_bytes()
    chunks, counts = chunks_of(data), per_chunk(bag1)
    for whole in (data, without_index(data)):
        damaged = bytearray(whole)
        begin, end = chunks[4]
        damaged[begin + 200 : end] = b"\xff" * (end - begin - 200)
        path = tmp_path / "bad.bag"
        path.write_bytes(damaged)
        found, source = read1(path)
        assert COUNT - counts[4] <= len(found) < COUNT
        assert source.damage.frames == COUNT - len(found)


def test_the_index_of_a_bag_describes_what_a_lost_chunk_described(bag1, tmp_path):
    data = bytearray(bag1.read_bytes())
    chunks, counts = chunks_of(bytes(data)), per_chunk(bag1)
    data[chunks[0][0] + 4 : chunks[0][0] + 60] = bytes(56)
    path = tmp_path / "bad.bag"
    path.write_bytes(data)
    found, _ = read1(path)
    assert found == EVERY1[counts[0] :]


def test_the_survey_of_a_finished_bag_reads_its_index_alone(bag1, monkeypatch):
    expected = Rosbag1Source(bag1).survey()["/note"]
    monkeypatch.setattr("trainload.recordings.importers.logs.rosbag1.source._Bag.messages", None)
    span = Rosbag1Source(bag1).survey()["/note"]
    assert span == expected
    assert (span.frames, span.first_ns, span.last_ns) == (COUNT, acquired(0), acquired(COUNT - 1))


def test_an_import_of_a_damaged_bag_can_be_repeated(database, tmp_path):
    database = database.read_bytes()
    damaged = bytearray(database)
    page = table_pages(database)[5]
    damaged[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    (tmp_path / "bag.db3").write_bytes(damaged)
    passes = [
        [item for item in Rosbag2Source(tmp_path / "bag.db3").items() if isinstance(item, SourceFrame)]
        for _ in range(2)
    ]
    assert passes[0] == passes[1]


def test_any_damage_to_a_ros2_bag_and_its_metadata_gives_messages_or_a_format_error(database, tmp_path):
    data, metadata = database.read_bytes()[: 24 * PAGE], (database.parent / "metadata.yaml").read_bytes()
    rng = random.Random(1)
    for _ in range(150):
        for name, whole in (("bag.db3", data), ("metadata.yaml", metadata)):
            damaged = bytearray(whole)
            for _ in range(rng.randint(1, 4)):
                begin = rng.randrange(min(len(whole), 9 * PAGE if rng.random() < 0.7 else len(whole)))
                size = rng.choice((1, 1, rng.randint(1, 200)))
                damaged[begin : begin + size] = rng.randbytes(size)
            (tmp_path / name).write_bytes(damaged[: rng.randrange(len(whole))] if rng.random() < 0.2 else damaged)
        with contextlib.suppress(FormatError):
            source = open_rosbag2(tmp_path)
            source.survey()
            list(source.items())
