"""Damaged, cut and hostile recordings: the error names the place, and what is whole still reads."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from isal import isal_zlib

from drive_data import SECOND, Written, write_drive
from trainload.errors import FormatError
from trainload.recordings.format.hyperframe import HEADER_BYTES, HyperframeHeader
from trainload.recordings.reading.hyperframe import HyperframeReader

MUTATIONS = int(os.environ.get("TRAINLOAD_MUTATIONS", "2500"))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_drive(tmp_path_factory.mktemp("good") / "good.hfr", seconds=0.4)


def _header(data: bytes | bytearray) -> HyperframeHeader:
    return HyperframeHeader.from_bytes(bytes(data[:HEADER_BYTES]), file_size=len(data))


def _set(data: bytearray, place: int, code: str, value: int) -> None:
    """Write a number into the header and make the header's CRC-32 right again."""
    struct.pack_into(code, data, place, value)
    struct.pack_into("<I", data, 508, isal_zlib.crc32(bytes(data[:508])))


def _index_number(data: bytearray, row: int, place: int, code: str, value: int) -> None:
    """Write a number into an index entry and make the CRC-32 of index and header right again."""
    header = _header(data)
    struct.pack_into(code, data, header.index_offset + 32 * row + place, value)
    index = bytes(data[header.index_offset : header.index_offset + header.index_size])
    _set(data, 92, "<I", isal_zlib.crc32(index))


def _last_row(data: bytearray) -> int:
    return _header(data).frame_count - 1


def _flip(data: bytearray, place: int) -> None:
    data[place] ^= 0x10


CASES: list[tuple[str, Callable[[bytearray], None], str]] = [
    ("no magic", lambda data: _flip(data, 0), "magic"),
    ("another version", lambda data: _set(data, 4, "<H", 2), "version"),
    ("another header size", lambda data: _set(data, 6, "<H", 256), "header_size"),
    ("a flipped header bit", lambda data: _flip(data, 30), "header's CRC-32"),
    ("an index behind the file", lambda data: _set(data, 36, "<Q", 1 << 40), "index_offset"),
    ("an index in the header", lambda data: _set(data, 36, "<Q", 0), "index_offset"),
    ("a size that is no multiple of the count", lambda data: _set(data, 44, "<Q", 33), "index_size"),
    ("more frames than the file has room for", lambda data: _set(data, 28, "<I", (1 << 32) - 1), "index_size"),
    ("a flipped index bit", lambda data: _flip(data, _header(data).index_offset + 5), "index's CRC-32"),
    ("sections behind the file", lambda data: _set(data, 60, "<Q", 1 << 63), "sections_offset"),
    ("a flipped section bit", lambda data: _flip(data, _header(data).sections_offset + 40), "section STRM crc"),
    ("a section longer than the list", lambda data: _flip(data, _header(data).sections_offset + 7), "size"),
    ("an unsorted index", lambda data: _index_number(data, 0, 8, "<Q", 1 << 40), "sorted"),
    ("a time of 64 bits", lambda data: _index_number(data, _last_row(data), 8, "<Q", 1 << 63), "timestamp"),
    ("a frame behind the file", lambda data: _index_number(data, 3, 16, "<Q", 1 << 40), "inside the file"),
]


@pytest.mark.parametrize(("damage", "match"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_broken_file_does_not_open(
    damage: Callable[[bytearray], None], match: str, good: Written, tmp_path: Path
) -> None:
    data = bytearray(good.path.read_bytes())
    damage(data)
    (tmp_path / "bad.hfr").write_bytes(data)
    with pytest.raises(FormatError, match=match) as caught:
        HyperframeReader(tmp_path / "bad.hfr")
    assert str(caught.value).endswith("bad.hfr")


def test_no_cut_file_opens(good: Written, tmp_path: Path) -> None:
    data = good.path.read_bytes()
    for size in (*range(0, 600, 37), *range(600, len(data), len(data) // 150), len(data) - 1):
        (tmp_path / "cut.hfr").write_bytes(data[:size])
        with pytest.raises(FormatError):
            HyperframeReader(tmp_path / "cut.hfr")


def test_a_damaged_payload_names_its_frame_and_the_others_still_read(good: Written, tmp_path: Path) -> None:
    entry = HyperframeReader(good.path).files[0]
    row = entry.index[entry.rows[1]][4]  # camera frame 4
    data = bytearray(good.path.read_bytes())
    _flip(data, int(row["byte_offset"]) + 100)
    (tmp_path / "bad.hfr").write_bytes(data)
    reader = HyperframeReader(tmp_path / "bad.hfr")
    with pytest.raises(FormatError, match=r"CRC-32 of frame 4 of stream camera") as caught:
        reader.read_range("camera", 0, SECOND)
    assert caught.value.offset == int(row["byte_offset"])
    others = [bytes(reader.read_at_index("camera", i).data) for i in range(12) if i != 4]
    assert others == [payload for i, (_, payload) in enumerate(good.frames["camera"]) if i != 4]
    window = next(window for window in reader if window.start_ns <= int(row["timestamp_ns"]) <= window.end_ns)
    assert window["odometry"]
    with pytest.raises(FormatError, match="frame 4 of stream camera"):
        window["camera"]


def test_verify_none_leaves_the_checksums_to_the_verify_command(good: Written, tmp_path: Path) -> None:
    data = bytearray(good.path.read_bytes())
    file = HyperframeReader(good.path).files[0]
    place = int(file.index[file.rows[2]][0]["byte_offset"])  # odometry, stored as it is
    _flip(data, place)
    (tmp_path / "bad.hfr").write_bytes(data)
    frame = HyperframeReader(tmp_path / "bad.hfr", verify="none").read_at_index("odometry", 0)
    assert bytes(frame.data) != good.frames["odometry"][0][1]


@pytest.mark.parametrize("size", [0, 3, 1 << 20])
def test_a_hostile_size_inside_a_compressed_payload_is_a_format_error(size: int, good: Written, tmp_path: Path) -> None:
    data = bytearray(good.path.read_bytes())
    file = HyperframeReader(good.path).files[0]
    struct.pack_into("<I", data, int(file.index[file.rows[0]][0]["byte_offset"]), size)
    (tmp_path / "bad.hfr").write_bytes(data)
    with pytest.raises(FormatError, match="must unpack"):
        HyperframeReader(tmp_path / "bad.hfr", verify="none").read_at_index("lidar/top", 0)


def test_unassigned_codecs_and_encrypted_frames_are_refused(good: Written, tmp_path: Path) -> None:
    for flags, match in ((3 << 2, "no codec has the id 3"), (1 << 7, "encrypted")):
        data = bytearray(good.path.read_bytes())
        _index_number(data, 0, 2, "<H", flags | 3)
        (tmp_path / "bad.hfr").write_bytes(data)
        with pytest.raises(FormatError, match=match):
            HyperframeReader(tmp_path / "bad.hfr").read_at_index("lidar/top", 0)


@pytest.mark.slow
def test_mutated_files_give_values_or_format_errors_in_bounded_memory(tmp_path: Path) -> None:
    """TRAINLOAD_MUTATIONS=100000 runs the full number (about 4 minutes)."""
    script = Path(__file__).parents[1] / "helpers/mutate_drive.py"
    command = [sys.executable, str(script), str(MUTATIONS), "1", str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=290 + MUTATIONS // 50)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
