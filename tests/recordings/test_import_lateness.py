"""The note on late frames names streams and blames clocks only where stamps are of another clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from trainload.recordings.importers.import_source import import_source
from trainload.recordings.importers.source import Channel, Damage, SourceFrame, SourceStream, Span

MS, S = 1_000_000, 1_000_000_000
START = 1_700_000_000 * S


class Log:
    """(stream, stamp, log time) as a source."""

    def __init__(self, frames: Iterable[tuple[str, int, int]]) -> None:
        self.frames = list(frames)
        self.damage, self.notes = Damage(), list[str]()
        self.channels: list[Channel] = []
        self.meta: dict[str, object] = {}

    def survey(self) -> dict[str, Span]:
        return {}

    def items(self) -> Iterator[SourceStream | SourceFrame]:
        for name in dict.fromkeys(name for name, _, _ in self.frames):
            yield SourceStream(name)
        for name, stamp, received in self.frames:
            yield SourceFrame(name, stamp, b"x", received)

    def progress(self) -> tuple[int, int]:
        return 0, 0


def steady(count: int = 100) -> list[tuple[str, int, int]]:
    return [(("imu", "lidar")[k % 2], START + k * 10 * MS, START + k * 10 * MS + MS) for k in range(count)]


def note(tmp_path, frames: list[tuple[str, int, int]]) -> str:
    notes = import_source(Log(frames), tmp_path / "a.hfr", window="50ms").notes
    return " ".join(text for text in notes if "far behind" in text)


@pytest.mark.parametrize("at", [0, 20])
def test_one_wrong_stamp_is_named_and_no_clock_is_blamed(tmp_path, at: int) -> None:
    frames = steady()
    frames.insert(at, ("gps", START + 3600 * S, START + at * 10 * MS))
    said = note(tmp_path, frames)
    assert "frame 0 of gps" in said and "ahead of the next: that stamp seems to be wrong" in said
    assert "imu (" in said and "lidar (" in said and "clock" not in said


def test_stamps_of_another_clock_name_their_stream(tmp_path) -> None:
    frames = [(name, stamp - START + 5 * S if name == "imu" else stamp, received) for name, stamp, received in steady()]
    said = note(tmp_path, frames)
    assert "The stamps of imu seem to be of another clock" in said and "--times log" in said and "imu (" in said


def test_frames_out_of_order_are_only_that(tmp_path) -> None:
    frames = [frame for k in range(0, 100, 20) for frame in reversed(steady()[k : k + 20])]
    said = note(tmp_path, frames)
    assert "out of order" in said and "clock" not in said and "stamp" not in said


def test_few_late_frames_are_no_note(tmp_path) -> None:
    frames = steady()
    frames[50] = ("imu", START, START)
    assert note(tmp_path, frames) == ""
