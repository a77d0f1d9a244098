"""Every method against a slow loop that says what the words mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from present import present
from trainload.errors import UsageError
from trainload.recordings.aligning.match import (
    NO_MATCH_NS,
    Interpolate,
    Interval,
    Nearest,
    Previous,
    Times,
    parse_method,
)

times_lists = st.lists(st.integers(0, 60), max_size=25)
limits = st.one_of(st.none(), st.integers(1, 20))
BIG = (1 << 63) - 200  # near the largest time a file can hold


def as_times(values: list[int], base: int = 0) -> np.ndarray:
    return np.sort(np.array(values, np.int64) + base)


def results(match) -> list[tuple[int, int]]:
    return list(zip(match.index.tolist(), match.residual_ns.tolist()))


@given(times_lists, times_lists, limits, st.sampled_from([0, BIG]))
@settings(deadline=None)
def test_nearest_is_the_closest_sample_and_the_earlier_of_two(reference, stream, limit, base):
    wanted, times = np.array(reference, np.int64) + base, as_times(stream, base)
    expected = []
    for t in wanted.tolist():
        best = min(range(len(times)), key=lambda k: (abs(int(times[k]) - t), k), default=None)
        good = best is not None and (limit is None or abs(int(times[best]) - t) <= limit)
        expected.append((best, int(times[best]) - t) if good else (-1, NO_MATCH_NS))
    assert results(Nearest(limit).match(Times(wanted), Times(times))) == expected


@given(times_lists, times_lists, limits)
@settings(deadline=None)
def test_previous_is_the_last_sample_not_after_the_time(reference, stream, limit):
    wanted, times = np.array(reference, np.int64), as_times(stream)
    expected = []
    for t in wanted.tolist():
        known = [k for k in range(len(times)) if times[k] <= t and (limit is None or t - times[k] <= limit)]
        expected.append((known[-1], int(times[known[-1]]) - t) if known else (-1, NO_MATCH_NS))
    assert results(Previous(limit).match(Times(wanted), Times(times))) == expected


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), max_size=20)


@given(spans, spans, limits)
@settings(deadline=None, max_examples=300)
def test_interval_takes_the_largest_intersection_and_the_earlier_of_equal_ones(reference, stream, least):
    wanted = np.array(reference, np.int64).reshape(-1, 2)
    samples = np.array(sorted(stream, key=lambda span: span[0]), np.int64).reshape(-1, 2)
    expected = []
    for start, duration in wanted.tolist():
        shared = [min(start + duration, s + d) - max(start, s) for s, d in samples.tolist()]
        best = max(range(len(shared)), key=lambda k: (shared[k], -k), default=None)
        if best is None or shared[best] < (least or 0):
            expected.append((-1, NO_MATCH_NS, 0))
        else:
            expected.append((best, int(samples[best, 0]) - start, shared[best]))
    match = Interval(least).match(Times(wanted[:, 0], wanted.sum(1)), Times(samples[:, 0], samples.sum(1)))
    assert [(*pair, shared) for pair, shared in zip(results(match), present(match.overlap_ns).tolist())] == expected


@given(times_lists, times_lists, st.integers(1, 20), limits)
@settings(deadline=None, max_examples=300)
def test_interpolate_uses_the_two_samples_around_a_time_and_never_crosses_a_gap(reference, stream, gap, reach):
    wanted, times = np.array(reference, np.int64), as_times(stream)
    match = Interpolate(max_gap=gap, extrapolate=reach).match(Times(wanted), Times(times))
    for row, t in enumerate(wanted.tolist()):
        expected = loop_interpolate(t, times.tolist(), gap, reach or 0)
        if expected is None:
            assert (match.index[row], present(match.right)[row], match.residual_ns[row]) == (-1, -1, NO_MATCH_NS)
            continue
        left, right, weight = expected
        assert (match.index[row], present(match.right)[row]) == (left, right)
        assert present(match.weight)[row] == pytest.approx(weight)
        assert abs(match.residual_ns[row]) == min(abs(times[left] - t), abs(times[right] - t))


def loop_interpolate(t: int, times: list[int], gap: int, reach: int) -> tuple[int, int, float] | None:
    exact = [k for k, value in enumerate(times) if value == t]
    if exact:
        return exact[-1], exact[-1], 0.0
    before, after = [k for k, v in enumerate(times) if v < t], [k for k, v in enumerate(times) if v > t]
    if before and after:
        left, right = before[-1], after[0]
    elif len(times) < 2 or min(abs(t - times[0]), abs(t - times[-1])) > reach or len(set(times)) < 2:
        return None
    elif before:  # the two outermost times, each by the sample that is nearer to the other
        left, right = times.index(times[-1]) - 1, times.index(times[-1])
    else:
        left, right = times.count(times[0]) - 1, times.count(times[0])
    width = times[right] - times[left]
    return None if width == 0 or width > gap else (left, right, (t - times[left]) / width)


def test_the_default_gap_is_three_median_periods():
    times = np.array([0, 10, 20, 30, 61, 71, 81, 110], np.int64)
    match = Interpolate().match(Times(np.array([45, 95])), Times(times))
    assert match.matched.tolist() == [False, True]


@pytest.mark.parametrize("method", [Nearest(), Previous(), Interval(), Interpolate()])
def test_an_empty_stream_matches_nothing_and_an_empty_reference_is_empty(method):
    nothing, some = Times(np.empty(0, np.int64)), Times(np.array([5, 6]))
    assert method.match(some, nothing).matched.tolist() == [False, False]
    assert len(method.match(nothing, some)) == 0


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("nearest:20ms", Nearest("20ms")),
        ("nearest", Nearest()),
        ("previous:1s", Previous("1s")),
        ("interval", Interval()),
        ("interpolate:15ms", Interpolate("15ms")),
    ],
)
def test_methods_are_written_with_their_bound_after_a_colon(text, method):
    assert parse_method(text) == method


@pytest.mark.parametrize("text", ["newest", "nearest:20", "nearest:-1ms", "", "interpolate:fast"])
def test_a_method_that_does_not_exist_is_a_usage_error(text):
    with pytest.raises(UsageError):
        parse_method(text)
