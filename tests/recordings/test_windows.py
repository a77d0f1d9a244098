"""The window rule: the batch form, the form for frames as they arrive, and the window table that follows from it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainload import FormatError
from trainload.recordings.format import hyperframe as hfrm
from trainload.recordings.format.windows import WindowTable, window_starts, window_table
from trainload.recordings.writing.window_cutter import CutWindow, WindowCutter, window_advice

MS = 1_000_000
WINDOW = 100 * MS


def rule(times: list[int], window_ns: int) -> list[list[int]]:
    """Section 4 of the spec, word for word and slowly: the oracle of everything here."""
    left, windows = sorted(times), []
    while left:
        end = left[0] + window_ns
        windows.append([time for time in left if time <= end])
        left = [time for time in left if time > end]
    return windows


def batch(times: list[int], window_ns: int) -> list[list[int]]:
    ordered = np.sort(np.array(times, np.int64))
    starts = window_starts(ordered, window_ns)
    window_of = np.searchsorted(starts, ordered, side="right") - 1
    return [ordered[window_of == k].tolist() for k in range(len(starts))]


def cut(times: list[int], window_ns: int, lateness_ns: int = 0) -> list[CutWindow[int]]:
    """As frames arrive, in the given order."""
    cutter: WindowCutter[int] = WindowCutter(window_ns, lateness_ns)
    windows = []
    for time in times:
        if cutter.push(time, time):
            windows += cutter.cut()
    return windows + cutter.flush()


def periodic(rate_hz: float, seconds: float, *, start: float = 0.0, jitter_ns: int = 0, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    count = int(rate_hz * seconds)
    return [int((start + n / rate_hz) * 1e9) + rng.randint(0, jitter_ns) for n in range(count)]


@given(st.lists(st.integers(0, 400), max_size=60), st.integers(1, 50))
def test_both_forms_give_the_rules_windows(times: list[int], window_ns: int) -> None:
    expected = rule(times, window_ns)
    assert batch(times, window_ns) == expected
    assert [window.items for window in cut(sorted(times), window_ns)] == expected


@settings(deadline=None)
@given(st.lists(st.integers(0, 5_000), max_size=200), st.integers(1, 500), st.integers(0, 300), st.randoms())
def test_disorder_within_the_lateness_changes_nothing(
    times: list[int], window_ns: int, lateness_ns: int, rng: random.Random
) -> None:
    arrivals = sorted(times, key=lambda time: time + rng.randint(0, lateness_ns))
    windows = cut(arrivals, window_ns, lateness_ns)
    assert [window.items for window in windows] == rule(times, window_ns)
    assert all(window.end_ns == window.start_ns + window_ns for window in windows)


@given(st.lists(st.integers(0, 2_000), max_size=100), st.integers(1, 100))
def test_any_order_loses_no_item(times: list[int], window_ns: int) -> None:
    windows = cut(times, window_ns)
    assert sorted(time for window in windows for time in window.items) == sorted(times)
    assert all(window.items == sorted(window.items) for window in windows)


def test_a_31_hz_camera_is_not_torn_by_a_grid() -> None:
    camera = periodic(31, 10)
    counts = [len(frames) for frames in rule(camera, WINDOW)]
    assert batch(camera, WINDOW) == rule(camera, WINDOW)
    assert set(counts[:-1]) == {4}  # a grid of 100 ms gives 3 and 4, and with jitter 2 and 4


def test_jittered_streams_of_many_rates_fill_windows_by_the_rule() -> None:
    times = periodic(200, 3, jitter_ns=2 * MS) + periodic(31, 3, jitter_ns=8 * MS) + periodic(10, 3, jitter_ns=MS)
    assert batch(times, WINDOW) == rule(times, WINDOW)
    arrivals = sorted(times, key=lambda time: time + random.Random(time).randint(0, 20 * MS))
    assert [window.items for window in cut(arrivals, WINDOW, 20 * MS)] == rule(times, WINDOW)


def test_a_stream_that_stops_or_starts_late_blocks_nothing() -> None:
    times = sorted(periodic(30, 1) + periodic(10, 3) + periodic(100, 1, start=2.0))
    cutter: WindowCutter[int] = WindowCutter(WINDOW, 0)
    closed = 0
    for time in times:
        if cutter.push(time, time):
            closed += len(cutter.cut())
        assert time - cutter.taken_to_ns <= 2 * WINDOW
    assert closed + len(cutter.flush()) == len(rule(times, WINDOW))


def test_a_gap_makes_no_empty_window() -> None:
    times = periodic(20, 1) + periodic(20, 1, start=3600.0)
    windows = cut(times, WINDOW)
    assert all(window.items for window in windows)
    assert windows[-1].start_ns > 3600 * 10**9
    assert len(windows) == len(rule(times, WINDOW)) < 25


def test_both_ends_belong_to_the_window_and_equal_times_stay_together() -> None:
    assert rule([0, 100, 101], 100) == batch([0, 100, 101], 100) == [[0, 100], [101]]
    cutter: WindowCutter[str] = WindowCutter(100, 0)
    for item in ("a", "b"):
        cutter.push(0, item)
    for item in ("c", "d", "e"):
        cutter.push(100, item)
    cutter.push(101, "f")
    assert [window.items for window in cutter.cut()] == [["a", "b", "c", "d", "e"]]


def test_a_late_frame_comes_out_with_the_next_window_and_moves_no_start() -> None:
    cutter: WindowCutter[str] = WindowCutter(100, 0)
    assert not cutter.push(0, "a")
    assert cutter.push(150, "b")
    assert cutter.cut() == [CutWindow(0, 100, ["a"])]
    assert not cutter.push(60, "late") and cutter.taken_to_ns >= 60
    assert cutter.push(251, "c")
    assert cutter.cut() == [CutWindow(150, 250, ["late", "b"])]


def test_late_frames_alone_still_come_out() -> None:
    cutter: WindowCutter[str] = WindowCutter(100, 0)
    cutter.push(500, "a")
    assert [window.items for window in cutter.flush()] == [["a"]]
    cutter.push(20, "late")
    assert cutter.flush() == [CutWindow(20, 20, ["late"])]
    assert cutter.flush() == []


def test_a_clock_that_ran_ahead_once_does_not_keep_everything_in_memory() -> None:
    cutter: WindowCutter[int] = WindowCutter(100, 0)
    cutter.push(1 << 60, -1)
    cutter.flush()
    windows, most = [], 0
    for time in (*range(0, 2000, 10), *[7] * 5000):
        if cutter.push(time, time):
            windows += cutter.cut()
        most = max(most, len(cutter.pending()))
    windows += cutter.flush()
    assert most <= 1024
    assert sum(len(window.items) for window in windows) == 5200
    assert all(window.start_ns == min(window.items) and window.end_ns == max(window.items) for window in windows)


def test_times_at_the_end_of_time_do_not_overflow() -> None:
    times = [0, hfrm.MAX_TIMESTAMP_NS - 1, hfrm.MAX_TIMESTAMP_NS]
    assert batch(times, 1000) == rule(times, 1000)
    assert [window.items for window in cut(times, 1000)] == rule(times, 1000)


def make_index(streams: dict[int, list[int]], late: frozenset[tuple[int, int]] = frozenset()) -> hfrm.Index:
    """A sorted index whose frames of 10 bytes lie in the order of time, the late ones behind all others."""
    by_time = sorted((time, stream) for stream, times in streams.items() for time in times)
    by_time.sort(key=lambda frame: (frame[1], frame[0]) in late)
    rows = [
        (stream, hfrm.LATE if (stream, time) in late else 0, 0, time, 512 + 64 * n, 10, 0)
        for n, (time, stream) in enumerate(by_time)
    ]
    index = np.array(rows, hfrm.INDEX_DTYPE)
    return index[hfrm.index_order(index)]


@given(st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 500), min_size=1, max_size=20), max_size=5))
def test_the_window_table_puts_every_frame_into_the_rules_window(streams: dict[int, list[int]]) -> None:
    index = make_index(streams)
    table = window_table(index, 50)
    expected = rule([time for times in streams.values() for time in times], 50)
    assert len(table) == len(expected)
    for k, times in enumerate(expected):
        found: list[int] = []
        for j, stream in enumerate(table.stream_ids.tolist()):
            mine = index[index["stream_id"] == stream]
            first, count = int(table.first[k, j]), int(table.count[k, j])
            found += mine["timestamp_ns"][first : first + count].tolist()
        assert sorted(found) == times
        assert (table.start_ns[k], table.end_ns[k]) == (times[0], times[0] + 50)
        assert table.extent_size[k] == 64 * (len(times) - 1) + 10
    size = 512 + 64 * len(index)
    again = WindowTable.from_bytes(table.to_bytes(), frame_count=len(index), file_size=size)
    assert all(np.array_equal(getattr(again, name), getattr(table, name)) for name in WindowTable.__slots__)


def test_late_frames_count_in_their_window_and_not_in_its_extent() -> None:
    index = make_index({0: [0, 10, 20, 200, 210], 1: [5, 205]}, late=frozenset({(0, 10), (1, 205)}))
    table = window_table(index, 100)
    assert table.count.tolist() == [[3, 1], [2, 1]]
    assert table.extent_offset.tolist() == [512, 512 + 3 * 64]
    assert table.extent_size.tolist() == [2 * 64 + 10, 64 + 10]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_window_table_is_refused_or_still_consistent(place: int, value: int) -> None:
    index = make_index({0: [0, 50, 120, 300], 3: [10, 130]})
    body = bytearray(window_table(index, 100).to_bytes())
    body[place % len(body)] = value
    try:
        table = WindowTable.from_bytes(bytes(body), frame_count=6, file_size=2000)
    except FormatError:
        return
    assert int(table.count.sum()) == 6


def test_a_window_table_of_the_wrong_length_is_refused() -> None:
    for body in (b"", bytes(7), b"\xff" * 8, bytes(9)):
        with pytest.raises(FormatError):
            WindowTable.from_bytes(body, frame_count=0, file_size=2000)


def test_the_advice_is_one_to_two_periods_of_the_slowest_stream() -> None:
    for window_ns, rates in ((WINDOW, [30.0, 10.0, 200.0]), (2 * WINDOW, [10.0]), (1, [])):
        assert window_advice(window_ns, rates) is None
    assert "(100 to 200 ms)" in (window_advice(WINDOW - 1, [30.0, 10.0]) or "")
    assert "windows of 500 ms" in (window_advice(500 * MS, [10.0]) or "")
