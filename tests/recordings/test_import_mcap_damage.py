"""Damaged MCAP files: what is sound comes in, what is not is counted, and no message comes in that was not written."""

from __future__ import annotations

import random
import struct
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from present import present
from trainload.errors import FormatError
from trainload.recordings.format.envelopes import Envelope
from trainload.recordings.importers.logs.mcap.source import McapSource
from trainload.recordings.importers.source import SourceFrame, SourceStream

mcap_writer = pytest.importorskip("mcap.writer")
from mcap.data_stream import ReadDataStream  # noqa: E402
from mcap.reader import make_reader  # noqa: E402
from mcap.records import Chunk  # noqa: E402
from mcap.stream_reader import breakup_chunk  # noqa: E402

TOPICS = ("/a", "/b", "/c")
COUNT = 1000
Row = tuple[str, int, int, bytes]
QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@cache
def rows(count: int = COUNT) -> list[Row]:
    """(topic, log time, sequence, data): each message is its own, and says so."""
    rng = random.Random(11)
    found = []
    for k in range(count):
        data = b"message %06d of the log. " % k + rng.randbytes(rng.randrange(10, 200)) + bytes(rng.randrange(60))
        found.append((TOPICS[k % 3], 1_700_000_000_000_000_000 + k * 1_000_000, k, data))
    return found


def write_log(path: Path, compression: str = "NONE", *, count: int = COUNT, chunk_size: int = 4000, **options) -> Path:
    """About 50 chunks, unless `use_chunking` is False."""
    with path.open("wb") as file:
        kind = mcap_writer.CompressionType[compression]
        writer = mcap_writer.Writer(file, compression=kind, chunk_size=chunk_size, **options)
        writer.start("", "test")
        schema = writer.register_schema("Text", "", b"")
        channels = {topic: writer.register_channel(topic, "text", schema) for topic in TOPICS}
        for topic, time, sequence, data in rows(count):
            writer.add_message(channels[topic], time, data, time, sequence)
            if sequence == count // 2:
                writer.add_attachment(time, time, "calibration", "text/plain", b"k: 1" * 50)
                writer.add_metadata("drive", {"city": "Karlsruhe"})
        writer.finish()
    return path


def read(path: Path) -> tuple[list[Row], McapSource, list[bytes]]:
    """Messages, the source, and attachment and metadata records."""
    source = McapSource(path)
    topics: dict[str, str] = {}
    found, records = [], []
    for item in source.items():
        if isinstance(item, SourceStream):
            topics[item.name] = source.channels[item.channel].topic if item.channel is not None else ""
        elif isinstance(item, SourceFrame) and item.wrapping is not None:
            data = Envelope(0, 0, *item.wrapping).message(item.data)
            found.append((topics[item.stream], item.receive_ns, item.wrapping.sequence, data))
        else:
            records.append(bytes(item.data))
    return found, source, records


@cache
def places(path: Path) -> tuple[list[tuple[int, int]], list[int]]:
    """[begin, end) of each chunk, and how many messages it has, by the index of the library."""
    with path.open("rb") as file:
        summary = present(make_reader(file).get_summary())
        chunks, counts = [], []
        for index in summary.chunk_indexes:
            chunks.append((index.chunk_start_offset, index.chunk_start_offset + index.chunk_length))
            file.seek(index.chunk_start_offset + 9)
            counts.append(sum(type(r).__name__ == "Message" for r in breakup_chunk(Chunk.read(ReadDataStream(file)))))
    return chunks, counts


@pytest.fixture(scope="module", params=["NONE", "LZ4", "ZSTD"])
def chunked(request, tmp_path_factory) -> Path:
    return write_log(tmp_path_factory.mktemp("mcap") / "log.mcap", request.param)


def begin_of_summary(data: bytes) -> int:
    return struct.unpack_from("<Q", data, len(data) - 8 - 20)[0]


def cut_summary(data: bytes) -> bytes:
    """Without footer, summary and data end, as a recorder that was killed leaves it."""
    return data[: begin_of_summary(data) - 13]


spots = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 300), st.integers(0, 2**32)), min_size=1, max_size=3)


@QUICK
@given(spots=spots, indexed=st.booleans())
def test_overwritten_bytes_cost_the_chunks_they_touch_alone(chunked, tmp_path, spots, indexed):
    every = rows()
    chunks, counts = places(chunked)
    data = chunked.read_bytes() if indexed else cut_summary(chunked.read_bytes())
    changed, touched, ends = bytearray(data), set(), []
    for share, size, seed in spots:
        begin = 8 + int(share * (len(data) - 8 - size))
        changed[begin : begin + size] = random.Random(seed).randbytes(size)
        touched |= {k for k, (start, end) in enumerate(chunks) if start < begin + size and begin < end}
        ends.append(begin + size)
    path = tmp_path / "bad.mcap"
    path.write_bytes(changed)
    found, source, records = read(path)
    if 0 in touched and (not indexed or begin_of_summary(data) < max(ends)):  # that chunk alone describes the channels
        every, found = (([("", *row[1:]) for row in some]) for some in (every, found))
    begins = [sum(counts[:k]) for k in range(len(counts) + 1)]
    kept = {row for k in range(len(counts)) if k not in touched for row in every[begins[k] : begins[k + 1]]}
    assert len(set(found)) == len(found)
    assert kept <= set(found) <= set(every)
    assert [row[2] for row in found] == sorted(row[2] for row in found)
    lost = len(every) - len(found) + 2 - len(records)
    assert source.damage.frames <= lost
    if lost:
        assert source.damage.bytes > 0
        assert any("byte" in reason for reason in source.damage.reasons)


@pytest.fixture(scope="module")
def unchunked(tmp_path_factory) -> tuple[bytes, list[int]]:
    """A log without chunks, and where each message's record begins, then the one behind the last, and its end."""
    path = write_log(tmp_path_factory.mktemp("mcap") / "log.mcap", use_chunking=False)
    data = path.read_bytes()
    begins = [data.index(b"message %06d of" % k) - 31 for k in range(COUNT)]
    end = begins[-1] + 31 + len(rows()[-1][3])
    return data, [*begins, end, end + 13]


@QUICK
@given(spots=spots, indexed=st.booleans())
def test_overwritten_bytes_in_a_log_without_chunks_cost_the_messages_there_and_one_before(
    unchunked, tmp_path, spots, indexed
):
    whole, begins = unchunked
    data, every = whole if indexed else cut_summary(whole), rows()
    changed, touched = bytearray(data), set()
    for share, size, seed in spots:
        begin = begins[0] + int(share * (len(data) - begins[0] - size))
        changed[begin : begin + size] = random.Random(seed).randbytes(size)
        touched |= {k for k in range(COUNT + 1) if begins[k] < begin + size and begin < begins[k + 1]}
    path = tmp_path / "bad.mcap"
    path.write_bytes(changed)
    found, _, _ = read(path)
    near = touched | {k - 1 for k in touched}
    assert {every[k] for k in range(COUNT) if k not in near} <= set(found)
    assert len(set(found) - set(every)) <= len(touched)  # altered inside, where nothing has a checksum
    assert len(found) <= COUNT


def test_a_chunk_header_that_is_lost_costs_its_chunk_and_the_index_counts_it(chunked, tmp_path):
    chunks, counts = places(chunked)
    data = chunked.read_bytes()
    for indexed in (True, False):
        changed = bytearray(data if indexed else cut_summary(data))
        changed[chunks[7][0] + 9 : chunks[7][0] + 60] = b"\xa5" * 51
        path = tmp_path / "bad.mcap"
        path.write_bytes(changed)
        found, source, _ = read(path)
        assert len(found) == COUNT - counts[7]
        assert source.damage.frames == counts[7]
        assert f"byte {chunks[7][0]:,}" in source.damage.reasons[0]


@pytest.mark.parametrize("change", [-1, 1, 1 << 8, 1 << 16, 1 << 24, 1 << 40])
def test_a_wrong_length_of_a_chunk_does_not_take_others_with_it(chunked, tmp_path, change):
    chunks, counts = places(chunked)
    for indexed in (True, False):
        changed = bytearray(chunked.read_bytes() if indexed else cut_summary(chunked.read_bytes()))
        size = struct.unpack_from("<Q", changed, chunks[3][0] + 1)[0]
        struct.pack_into("<Q", changed, chunks[3][0] + 1, (size + change) % (1 << 64))
        path = tmp_path / "bad.mcap"
        path.write_bytes(changed)
        found, source, _ = read(path)
        assert len(found) == COUNT - counts[3]
        assert set(found) <= set(rows())
        assert source.damage.bytes > 0


def test_a_damaged_opcode_makes_no_other_record(tmp_path):
    path = write_log(tmp_path / "log.mcap")
    chunks, counts = places(path)
    data = path.read_bytes()
    spots = {
        8: 0,
        chunks[5][0]: counts[5],
        chunks[5][1]: 0,
        data.index(b"calibration") - 29: 0,
        data.index(b"drive") - 13: 0,
    }
    for whole in (data, cut_summary(data)):
        for spot, lost in spots.items():
            for opcode in (*range(17), 0x7F, 0x80, 0xFF):
                if opcode != data[spot]:
                    path.write_bytes(whole[:spot] + bytes((opcode,)) + whole[spot + 1 :])
                    found, source, records = read(path)
                    assert (len(found), set(found) <= set(rows())) == (COUNT - lost, True)
                    assert len(records) == (1 if data[spot] in (9, 12) else 2)
                    assert source.damage.bytes > 0
                    assert source.damage.frames <= max(lost, 2 - len(records))


def test_a_lost_magic_is_counted_where_the_end_is_sound(chunked, tmp_path):
    data = chunked.read_bytes()
    path = tmp_path / "bad.mcap"
    path.write_bytes(bytes(8) + data[8:])
    found, source, _ = read(path)
    assert found == rows()
    assert source.damage.bytes == 8
    path.write_bytes(bytes(8) + cut_summary(data)[8:])
    with pytest.raises(FormatError):
        read(path)


def test_a_file_torn_apart_goes_on_behind_the_hole(chunked, tmp_path):
    chunks, counts = places(chunked)
    data = cut_summary(chunked.read_bytes())
    path = tmp_path / "bad.mcap"
    path.write_bytes(data[: chunks[4][0] + 100] + data[chunks[30][0] + 77 :])
    found, source, _ = read(path)
    assert len(found) == COUNT - sum(counts[4:31])
    assert source.damage.bytes > 0


@pytest.mark.parametrize("crcs", [True, False])
def test_chunks_without_checksums_give_their_sound_messages(tmp_path, crcs):
    path = write_log(tmp_path / "log.mcap", "NONE", enable_crcs=crcs)
    data, every = path.read_bytes(), rows()
    place = data.find(b"message 000300 of") - 31  # the head of that record, inside an uncompressed chunk
    path.write_bytes(data[:place] + b"\xee" * 20 + data[place + 20 :])
    found, source, _ = read(path)
    assert set(found) <= set(every)
    if crcs:
        assert source.damage.frames == COUNT - len(found) > 1
    else:
        assert {row[2] for row in every} - {row[2] for row in found} == {299, 300}
        assert source.damage.bytes > 0


def test_a_message_whose_length_is_wrong_is_not_given_short_or_long(tmp_path):
    path = write_log(tmp_path / "log.mcap", "NONE", use_chunking=False, enable_crcs=False)
    data, every = path.read_bytes(), rows()
    place = data.find(b"message 000300 of") - 30
    size = struct.unpack_from("<Q", data, place)[0]
    for wrong in (22, size - 1, size + 1, size + 256, size + 65536, 1 << 50):
        path.write_bytes(data[:place] + struct.pack("<Q", wrong) + data[place + 8 :])
        found, source, _ = read(path)
        assert found in (every[:300] + every[301:], every[:299] + every[301:])  # the one before it may be doubted
        assert source.damage.bytes > 0


def test_the_checksum_of_the_data_section_tells_of_altered_messages(tmp_path):
    path = write_log(tmp_path / "log.mcap", "NONE", use_chunking=False, enable_data_crcs=True)
    assert not read(path)[1].damage
    data = bytearray(path.read_bytes())
    data[data.find(b"message 000300 of")] ^= 1
    path.write_bytes(data)
    found, source, _ = read(path)
    assert len(found) == COUNT
    assert "data section" in source.damage.reasons[0]


def test_an_attachment_that_its_checksum_denies_is_counted_not_kept(tmp_path):
    path = write_log(tmp_path / "log.mcap")
    _, source, records = read(path)
    assert (len(records), bool(source.damage)) == (2, False)
    data = bytearray(path.read_bytes())
    data[data.find(b"k: 1") + 40] ^= 1
    path.write_bytes(data)
    found, source, records = read(path)
    assert (len(found), len(records)) == (COUNT, 1)
    assert source.damage.frames == 1
    assert "attachment" in source.damage.reasons[0]


def test_a_summary_that_its_checksum_denies_is_not_believed(tmp_path):
    path = write_log(tmp_path / "log.mcap")
    data = bytearray(path.read_bytes())
    start = struct.unpack_from("<Q", data, len(data) - 28)[0]
    place = data.index(b"/b", start)
    data[place : place + 2] = b"/X"
    path.write_bytes(data)
    found, source, _ = read(path)
    assert found == rows()
    assert not source.damage
    assert set(McapSource(path).survey()) == set(TOPICS)


def test_an_mcap_file_inside_an_attachment_is_not_read_as_messages(tmp_path):
    inner = write_log(tmp_path / "inner.mcap", count=50).read_bytes()
    path = tmp_path / "log.mcap"
    with path.open("wb") as file:
        writer = mcap_writer.Writer(file, chunk_size=500)
        writer.start()
        channel = writer.register_channel("/a", "text", 0)
        for k in range(40):
            writer.add_message(channel, k, b"outer %d" % k, k, k)
        writer.add_attachment(1, 1, "inner.mcap", "", inner)
        for k in range(40, 80):
            writer.add_message(channel, k, b"outer %d" % k, k, k)
        writer.finish()
    data = bytearray(path.read_bytes())
    place = data.find(b"inner.mcap") - 29
    assert data[place] == 9
    data[place + 1 : place + 9] = b"\xff" * 8
    path.write_bytes(data)
    found, source, records = read(path)
    assert Counter(row[3][:5] for row in found) == {b"outer": 80}
    assert records == []
    assert source.damage.bytes >= len(inner)


def test_garbage_that_only_looks_like_records_costs_time_in_proportion(tmp_path):
    path = write_log(tmp_path / "log.mcap", "NONE")
    chunks, _ = places(path)
    data = cut_summary(path.read_bytes())
    fakes = struct.pack("<BQ", 7, 1 << 30) * 60_000
    path.write_bytes(data[: chunks[5][0]] + fakes + data[chunks[5][0] :])
    found, source, _ = read(path)
    assert found == rows()
    assert source.damage.bytes == len(fakes)
