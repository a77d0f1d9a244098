"""align: references, clocks, values and the residuals that travel with every pair."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import trainload as tl
from present import present
from trainload.errors import UsageError
from trainload.recordings.aligning.match import NO_MATCH_NS

MS = 1_000_000
S = 1_000_000_000


def rig() -> tl.ArrayStreams:
    streams = tl.ArrayStreams()
    streams.add("lidar", np.arange(20) * 100 * MS, durations="50ms")
    streams.add("camera", np.arange(60) * 33 * MS + 5 * MS, durations=np.full(60, 8 * MS))
    streams.add("imu", np.arange(400) * 5 * MS, values=np.arange(400, dtype=np.float32).reshape(-1, 1) * [[1, 2]])
    return streams


def test_every_other_stream_is_matched_by_nearest_unless_said_otherwise():
    pairs = tl.align(rig(), to="lidar")
    assert set(pairs.matches) == {"camera", "imu"}
    assert len(pairs) == 20
    first = pairs[0]
    assert (first.time_ns, first.reference_index, first.index["camera"]) == (0, 0, 0)
    assert first.residual_ns == {"camera": 5 * MS, "imu": 0}
    assert not first.mixed_clocks


def test_a_fixed_clock_ticks_from_the_first_sample_to_the_last():
    pairs = tl.align(rig(), every="250ms", using={"lidar": tl.Previous(), "imu": tl.Interpolate()})
    assert pairs.times.tolist() == [k * 250 * MS for k in range(8)]
    assert pairs.reference_index is None
    assert pairs.reference == "every 250ms"


def test_interval_uses_the_sweep_and_the_exposure():
    pairs = tl.align(rig(), to="lidar", using={"camera": tl.Interval(min_overlap="8ms")})
    match = pairs.matches["camera"]
    assert present(match.overlap_ns)[0] == 8 * MS
    assert pairs.complete.sum() == len(pairs.select())


def test_interpolated_values_lie_on_the_line_and_keep_their_type():
    pairs = tl.align(rig(), every="7ms", using={"imu": tl.Interpolate()})
    values = pairs.values("imu")
    assert values.dtype == np.float64
    assert np.allclose(values[:, 1], pairs.times / (5 * MS) * 2)


def test_select_keeps_pairs_within_the_bound_and_all_that_belongs_to_them():
    pairs = tl.align(rig(), to="lidar")
    good = pairs.select(max_residual={"camera": "6ms"})
    assert 0 < len(good) < len(pairs)
    assert (np.abs(good.residuals["camera"]) <= 6 * MS).all()
    assert (pairs.times[good.reference_index] == good.times).all()
    assert len(pairs.select(max_residual="6ms")) == len(good)
    with pytest.raises(UsageError, match="radar"):
        pairs.select(max_residual={"radar": "1ms"})


def test_unmatched_pairs_have_no_weight_and_pass_no_bound():
    streams = rig()
    streams.add("late", np.array([1900 * MS]))
    pairs = tl.align(streams, to="lidar", using={"late": tl.Nearest(max="1ms")})
    assert pairs.residuals["late"][0] == NO_MATCH_NS
    assert pairs.weights("5ms").tolist() == [0.0] * 19 + [1.0]
    assert len(pairs.select(max_residual="10h", complete=False)) == 1
    assert len(pairs.select(complete=False)) == 20


def test_host_stamped_and_hardware_stamped_streams_never_meet_unasked():
    streams = rig()
    streams.add("gps", np.arange(20) * 100 * MS, clock="host")
    with pytest.raises(UsageError, match=r"host-stamped gps.*lidar"):
        tl.align(streams, to="lidar", using={"gps": tl.Nearest()})
    with pytest.raises(UsageError, match="host-stamped gps"):
        tl.align(streams, every="10ms", using={"gps": tl.Nearest(), "imu": tl.Nearest()})
    alone = tl.align(streams, every="10ms", using={"gps": tl.Nearest()})
    assert not alone.mixed_clocks


def test_allow_host_marks_every_result():
    streams = rig()
    streams.add("gps", np.arange(20) * 100 * MS, clock="host")
    pairs = tl.align(streams, to="lidar", using={"gps": tl.Nearest()}, allow_host=True)
    assert pairs.mixed_clocks
    assert pairs[3].mixed_clocks
    assert pairs.select(max_residual="1s").mixed_clocks
    assert pairs.report().facts()["mixed_clocks"]
    assert "MIXED" in str(pairs.report())


def test_times_out_of_order_are_sorted_with_everything_beside_them():
    streams = tl.ArrayStreams()
    streams.add("a", [3, 1, 2], values=[30.0, 10.0, 20.0], durations=[3, 1, 2], receive_times=[33, 11, 22])
    assert streams.timestamps("a").tolist() == [1, 2, 3]
    assert streams.values("a").tolist() == [10.0, 20.0, 30.0]
    assert present(streams.receive_times("a")).tolist() == [11, 22, 33]


@pytest.mark.parametrize(
    "wrong",
    [
        {"timestamps": [1.5]},
        {"timestamps": [[1]]},
        {"timestamps": [1], "clock": "gps"},
        {"timestamps": [1], "values": [1, 2]},
        {"timestamps": [1], "durations": [-1]},
        {"timestamps": np.array([1 << 63], np.uint64)},
    ],
)
def test_arrays_that_cannot_be_times_are_usage_errors(wrong):
    with pytest.raises(UsageError):
        tl.ArrayStreams().add("a", **wrong)


@pytest.mark.parametrize("wrong", [{}, {"to": "lidar", "every": "1s"}, {"to": "radar"}, {"every": "0ms"}])
def test_a_reference_that_is_none_or_two_or_unknown_is_a_usage_error(wrong):
    with pytest.raises(UsageError):
        tl.align(rig(), **wrong)


def test_pairs_pickle():
    pairs = tl.align(rig(), to="lidar")
    again = pickle.loads(pickle.dumps(pairs))
    assert again[7] == pairs[7]


def test_orientations_are_slerped_as_scipy_does_and_other_fields_by_their_own_rule():
    from scipy.spatial.transform import Rotation, Slerp

    rng = np.random.default_rng(0)
    times = np.arange(50) * 10 * MS + rng.integers(0, MS, 50)
    turns = Rotation.random(50, rng=1)
    values = np.zeros(50, [("orientation", "<f8", 4), ("rate", "<f4", 3), ("count", "<i4"), ("mode", "<f8")])
    values["orientation"], values["rate"] = turns.as_quat(), rng.normal(size=(50, 3))
    values["count"], values["mode"] = np.arange(50), np.arange(50)
    streams = tl.ArrayStreams()
    streams.add("imu", times, values=values)
    pairs = tl.align(streams, every="3ms", using={"imu": tl.Interpolate(fields={"mode": "previous"})})
    got = pairs.values("imu")
    inside = pairs.matches["imu"].matched
    expected = Slerp(times / S, turns)(pairs.times[inside] / S)
    assert (Rotation.from_quat(got["orientation"][inside]) * expected.inv()).magnitude().max() < 1e-6
    for axis in range(3):
        line = np.interp(pairs.times, times, values["rate"][:, axis].astype(np.float64))
        assert np.allclose(got["rate"][inside, axis], line[inside], atol=1e-6)
    nearest = np.abs(times[:, None] - pairs.times[inside]).argmin(0)
    assert np.abs(got["count"][inside] - nearest).max() == 0
    assert (got["mode"][inside] == np.searchsorted(times, pairs.times[inside], "right") - 1).all()


def test_four_columns_that_are_a_quaternion_together_are_slerped():
    values = np.zeros(2, [(name, "<f8") for name in ("qx", "qy", "qz", "qw")])
    values["qw"][0], values["qz"][1] = 1, 1  # half a turn about z
    streams = tl.ArrayStreams()
    streams.add("pose", [0, 10], values=values)
    streams.add("tick", [5])
    got = tl.align(streams, to="tick", using={"pose": tl.Interpolate(max_gap=10)}).values("pose")
    assert got["qz"][0] == pytest.approx(np.sqrt(0.5))
    assert got["qw"][0] == pytest.approx(np.sqrt(0.5))


def test_unmatched_values_are_nan_in_floats_and_zero_elsewhere():
    streams = tl.ArrayStreams()
    streams.add("pose", [0, 10], values=np.array([(1.0, 7), (2.0, 8)], [("x", "<f4"), ("n", "<i4")]))
    streams.add("tick", [5, 50])
    got = tl.align(streams, to="tick", using={"pose": tl.Interpolate(max_gap=10)}).values("pose")
    assert got["x"][0] == 1.5
    assert np.isnan(got["x"][1])
    assert got["n"].tolist() == [7, 0]


@pytest.mark.filterwarnings("error")
def test_samples_that_are_no_numbers_are_interpolated_to_nan_and_met_exactly_as_they_are():
    values = np.array([0.0, np.inf, np.inf, np.nan, 4.0, 5.0], "<f4")
    values.view("<u4")[3] = 0x7FA00000  # a NaN that signals
    streams = tl.ArrayStreams()
    streams.add("pressure", np.arange(6) * 10, values=values)
    got = tl.align(streams, every=5, using={"pressure": tl.Interpolate()}).values("pressure")
    expected = [0, np.inf, np.inf, np.nan, np.inf, np.nan, np.nan, np.nan, 4, 4.5, 5]
    assert np.array_equal(got, np.array(expected, "<f4"), equal_nan=True)


@pytest.mark.filterwarnings("error")
def test_between_samples_without_an_orientation_there_is_none():
    nothing = [[0, 0, 0, 0], [np.nan, 0, 0, 1], [0, np.inf, 0, 1]]
    for none in nothing:
        streams = tl.ArrayStreams()
        values = np.zeros(3, [("orientation", "<f8", 4)])
        values["orientation"] = [none, [0, 0, 0, 1], [0, 0, 0, 1]]
        streams.add("imu", [0, 10, 20], values=values)
        got = tl.align(streams, every=5, using={"imu": tl.Interpolate()}).values("imu")["orientation"]
        assert got[:2].tolist() == [[0, 0, 0, 0]] * 2 and got[2:].tolist() == [[0, 0, 0, 1]] * 3


def test_complex_samples_come_from_the_nearer_one_unless_said_otherwise():
    streams = tl.ArrayStreams()
    streams.add("iq", [0, 10], values=np.array([1j, 2j], "<c8"))
    assert tl.align(streams, every=4, using={"iq": tl.Interpolate()}).values("iq").tolist() == [1j, 1j, 2j]


@pytest.mark.parametrize("rule", [{"z": "linear"}, {"x": "cubic"}, {"x": "slerp"}])
def test_a_rule_that_does_not_fit_its_field_is_a_usage_error(rule):
    streams = tl.ArrayStreams()
    streams.add("pose", [0, 10], values=np.zeros(2, [("x", "<f4"), ("y", "<f4")]))
    with pytest.raises(UsageError):
        tl.align(streams, every=5, using={"pose": tl.Interpolate(fields=rule)}).values("pose")
