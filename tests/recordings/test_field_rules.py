"""Orientations, angles and flags are declared, and interpolated as what they are; duplicate stamps change no match."""

from __future__ import annotations

import json
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainload as tl
from present import present
from trainload.recordings.aligning.match import NO_MATCH_NS, Times
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.importers.folders.comma import open_comma
from trainload.recordings.importers.folders.euroc.source import open_euroc
from trainload.recordings.importers.folders.kitti.source import open_kitti
from trainload.recordings.importers.folders.tum import open_tum
from trainload.recordings.importers.import_source import import_source
from trainload.recordings.writing.writer import HyperframeWriter

MS = 1_000_000
scipy_rotation = pytest.importorskip("scipy.spatial.transform")


def slerp_oracle(times: np.ndarray, xyzw: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """scipy's own Slerp, one value at a time."""
    curve = scipy_rotation.Slerp(times, scipy_rotation.Rotation.from_quat(xyzw))
    return np.array([curve(time).as_quat() for time in wanted])


def same_turns(one: np.ndarray, two: np.ndarray) -> bool:
    return bool(np.allclose(np.abs((one * two).sum(axis=1)), 1, atol=1e-9))


def turning(count: int, *, step: float = 0.12) -> np.ndarray:
    """Quaternions (x, y, z, w) about a tilted axis; every other one with its sign changed, which is the same turn."""
    rotations = scipy_rotation.Rotation.from_rotvec(np.outer(np.arange(count) * step, [0.36, 0.48, 0.8]))
    return rotations.as_quat() * np.where(np.arange(count) % 2, 1, -1)[:, None]


def interpolated(path: Path, stream: str, every: str) -> tuple[np.ndarray, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairs = tl.align(tl.open_recording(path), every=every, using={stream: tl.Interpolate()})
        return pairs.times, pairs.values(stream)


def write_euroc(root: Path, xyzw: np.ndarray) -> None:
    folder = root / "mav0" / "state_groundtruth_estimate0"
    folder.mkdir(parents=True)
    header = "#timestamp, p_RS_R_x [m], q_RS_w [], q_RS_x [], q_RS_y [], q_RS_z [], b_w_RS_S_x [rad s^-1]\n"
    rows = [f"{k * 5 * MS + MS},{k},{w!r},{x!r},{y!r},{z!r},0.5\n" for k, (x, y, z, w) in enumerate(xyzw.tolist())]
    (folder / "data.csv").write_text(header + "".join(rows))


def test_euroc_orientations_run_on_the_great_arc(tmp_path: Path) -> None:
    xyzw = turning(20)
    write_euroc(tmp_path, xyzw)
    import_source(open_euroc(tmp_path), tmp_path / "e.hfr")
    times, values = interpolated(tmp_path / "e.hfr", "state_groundtruth_estimate0", "1250us")
    found = np.stack([values[f"q_RS_{part}"] for part in "xyzw"], axis=-1)
    assert np.allclose(np.linalg.norm(found, axis=1), 1)
    assert same_turns(found, slerp_oracle(np.arange(20) * 5 * MS + MS, xyzw, times))
    assert np.allclose(values["p_RS_R_x"], (times - MS) / (5 * MS))


def test_tum_and_comma_orientations_run_on_the_great_arc(tmp_path: Path) -> None:
    xyzw = turning(12)
    (tmp_path / "tum").mkdir()
    rows = [f"{1 + k / 100:.2f} {k} 0 0 {x!r} {y!r} {z!r} {w!r}\n" for k, (x, y, z, w) in enumerate(xyzw.tolist())]
    (tmp_path / "tum" / "groundtruth.txt").write_text("# time tx ty tz qx qy qz qw\n" + "".join(rows))
    pose = tmp_path / "40" / "global_pose"
    pose.mkdir(parents=True)
    for name, array in (("frame_times", 1 + np.arange(12) / 100), ("frame_orientations", xyzw[:, [3, 0, 1, 2]])):
        with (pose / name).open("wb") as file:
            np.save(file, array)
    import_source(open_tum(tmp_path / "tum"), tmp_path / "t.hfr")
    import_source(open_comma(tmp_path / "40"), tmp_path / "c.hfr")
    times, values = interpolated(tmp_path / "t.hfr", "groundtruth", "2500us")
    expected = slerp_oracle(10**9 + np.arange(12) * 10 * MS, xyzw, times)
    assert same_turns(np.stack([values[f"q{part}"] for part in "xyzw"], axis=-1), expected)
    _, values = interpolated(tmp_path / "c.hfr", "global_pose", "2500us")
    assert same_turns(values["orientation_wxyz"][:, [1, 2, 3, 0]], expected)


def write_kitti(root: Path, yaws: np.ndarray, lons: np.ndarray) -> None:
    folder = root / "drive_sync" / "oxts"
    (folder / "data").mkdir(parents=True)
    for k, (yaw, lon) in enumerate(zip(yaws, lons)):
        text = f"49.0 {lon:.9f} 116.0 0.01 0.02 {yaw:.9f} " + "0.0 " * 19 + f"{4 + k % 2} 10 4 4 0\n"
        (folder / "data" / f"{k:010d}.txt").write_text(text)
    stamps = "".join(f"2011-09-26 13:02:25.{k:02d}0000000\n" for k in range(len(yaws)))
    (folder / "timestamps.txt").write_text(stamps)


def test_kitti_angles_take_the_shorter_way_and_states_are_not_mixed(tmp_path: Path) -> None:
    true = 3.10 + 0.01 * np.arange(10)
    yaws = (true + np.pi) % (2 * np.pi) - np.pi
    lons = (179.9 + 0.05 * np.arange(10) + 180) % 360 - 180
    write_kitti(tmp_path, yaws, lons)
    import_source(open_kitti(tmp_path), tmp_path / "k.hfr")
    times, values = interpolated(tmp_path / "k.hfr", "oxts", "2500us")
    way = (times - times[0]) / (10 * MS)
    expected = np.angle(np.exp(1j * (3.10 + 0.01 * way)))  # the oracle: a turn is a point of the circle
    assert np.allclose(np.exp(1j * values["yaw"]), np.exp(1j * expected)) and np.abs(values["yaw"]).max() < 3.15
    assert np.allclose(np.exp(1j * np.deg2rad(values["lon"])), np.exp(1j * np.deg2rad(179.9 + 0.05 * way)))
    assert set(values["navstat"].tolist()) <= {4.0, 5.0}


@given(st.floats(-170, 170), st.floats(-170, 170), st.floats(0, 1), st.sampled_from(["angle", "angle_degrees"]))
@settings(deadline=None)
def test_an_angle_lies_on_the_shorter_arc(start: float, turn: float, weight: float, rule: str) -> None:
    unit = 1.0 if rule == "angle_degrees" else np.pi / 180
    for low in (-180.0, 0.0):
        ends = (np.array([start, start + turn]) - low) % 360 + low
        rig = tl.ArrayStreams()
        rig.add("to", [int(weight * 1000)])
        rig.add("yaw", [0, 1000, 2000, 3000], values=np.append(ends, [low, low + 360]) * unit, fields={"value": rule})
        found = tl.align(rig, to="to", using={"yaw": tl.Interpolate()}).values("yaw")[0] / unit
        expected = start + turn * int(weight * 1000) / 1000
        assert abs((found - expected + 180) % 360 - 180) < 1e-6 and low - 1e-3 <= found <= low + 360 + 1e-3


def test_angles_that_count_turns_on_are_left_in_their_count() -> None:
    rig = tl.ArrayStreams()
    rig.add("to", [5, 15])
    rig.add("wheel", [0, 10, 20], values=np.array([3.0, 6.5, 9.6]), fields={"value": "angle"})
    assert np.allclose(
        tl.align(rig, to="to", using={"wheel": tl.Interpolate(max_gap="1s")}).values("wheel"),
        [3 + (3.5 - 2 * np.pi) / 2, 8.05],
    )


def test_a_recorder_declares_and_a_caller_overrides(tmp_path: Path) -> None:
    record = [("w", "<f8"), ("x", "<f8"), ("y", "<f8"), ("z", "<f8"), ("heading", "<f4"), ("fix", "<f8", (2,))]
    fields = {("w", "x", "y", "z"): "quaternion_wxyz", "heading": "angle_degrees", "fix": ("linear", "previous")}
    with HyperframeWriter(tmp_path / "a.hfr", window="1s") as writer:
        stream = writer.add_stream("pose", dtype=record, packed=True, fields=fields)  # type: ignore[arg-type]
        for k, (x, y, z, w) in enumerate(turning(4).tolist()):
            sample = np.array([(w, x, y, z, [350, 10, 30, 50][k], (k, k))], record)
            writer.append(stream, k * 10 * MS, sample.tobytes())
    drive = tl.open_recording(tmp_path / "a.hfr")
    assert dict(drive.streams["pose"].fields) == fields
    values = tl.align(drive, every="5ms", using={"pose": tl.Interpolate()}).values("pose")
    found = np.stack([values[part] for part in "xyzw"], axis=-1)
    assert same_turns(found, slerp_oracle(np.arange(4) * 10, turning(4), np.arange(0, 31, 5)))
    assert values["heading"][1] in (0, 360) and values["fix"][1].tolist() == [0.5, 0]
    asked = tl.Interpolate(fields={"heading": "previous", "w": "nearest"})
    values = tl.align(drive, every="5ms", using={"pose": asked}).values("pose")
    assert values["heading"][1] == 350 and values["w"][1] in (-turning(4)[0, 3], turning(4)[0, 3])


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"no": "angle"}, "no field 'no'"),
        ({"x": "slope"}, "not slope"),
        ({("x", "y"): "quaternion_xyzw"}, "four fields"),
        ({"t": "angle"}, "needs numbers"),
        ({"x": ("linear", "linear")}, "2 rules"),
        ({"x": "quaternion_xyzw"}, "four"),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused(tmp_path: Path, fields: dict, says: str) -> None:
    with HyperframeWriter(tmp_path / "a.hfr") as writer, pytest.raises(tl.UsageError, match=f"'s'.*{says}"):
        writer.add_stream("s", dtype=[("x", "<f8"), ("y", "<f8"), ("t", "|S3")], fields=fields)


def test_the_table_of_streams_is_as_before_where_nothing_is_declared() -> None:
    info = StreamInfo(0, "a", dtype=np.dtype("<f8"))
    assert "fields" not in info.to_json()
    table = {**info.to_json(), "fields": [[["value"], "a rule of later versions"]]}
    assert StreamInfo.from_json(json.loads(json.dumps(table))).fields == {"value": "a rule of later versions"}
    for bad in (1, [1], [["a", "b"]], [[[], "angle"]], [[["a"], 1]], [[["a"], []]]):
        with pytest.raises(ValueError, match=r"fields|rule"):
            StreamInfo.from_json({**table, "fields": bad})


def test_undeclared_numbers_that_look_like_orientations_or_angles_are_warned_of() -> None:
    xyzw = turning(9)
    record = np.zeros(9, [("a", "<f8"), ("b", "<f8"), ("c", "<f8"), ("d", "<f8"), ("e", "<f4")])
    for name, column in zip("abcd", xyzw.T):
        record[name] = column
    record["e"] = np.linspace(170, 194, 9) - 360 * (np.linspace(170, 194, 9) > 180)
    rig = tl.ArrayStreams()
    rig.add("s", np.arange(9), values=record)
    pairs = tl.align(rig, to="s", using={"s": tl.Interpolate()})
    with pytest.warns(UserWarning) as said:
        pairs.values("s")
    assert [str(one.message).split(":")[0:2] for one in said] and len(said) == 2
    assert "a, b, c, d are unit quaternions" in str(said[0].message) and "fields={'e': 'angle_deg" in str(
        said[1].message
    )
    fields = {("a", "b", "c", "d"): "quaternion_wxyz", "e": "linear"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tl.align(rig, to="s", using={"s": tl.Interpolate(fields=fields)}).values("s")


# Duplicate stamps.


def brute(times: list[int], wanted: int, max_gap: int, reach: int) -> tuple[int, int, float] | None:
    """(left, right, weight) of one time, by looking at every sample."""
    at = [k for k, time in enumerate(times) if time == wanted]
    if at:
        return at[-1], at[-1], 0.0
    before = [k for k, time in enumerate(times) if time < wanted]
    after = [k for k, time in enumerate(times) if time > wanted]
    beyond = not before or not after
    if len(set(times)) < 2:
        return None
    if not before:
        left = max(k for k, time in enumerate(times) if time == times[0])
        right = left + 1
    elif not after:
        right = min(k for k, time in enumerate(times) if time == times[-1])
        left = right - 1
    else:
        left, right = before[-1], after[0]
    nearest = min(abs(times[left] - wanted), abs(times[right] - wanted))
    if times[right] - times[left] > max_gap or (beyond and nearest > reach):
        return None
    return left, right, (wanted - times[left]) / (times[right] - times[left])


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=9).map(sorted), st.sampled_from([None, 2, 5]), st.integers(1, 4)
)
def test_duplicate_stamps_match_as_the_slow_search_says(times: list[int], gap: int | None, reach: int) -> None:
    steps = [b - a for a, b in pairwise(times) if b > a]
    limit = gap if gap is not None else 3 * int(np.median(steps)) if steps else 0
    wanted = list(range(-5, 18))
    match = tl.Interpolate(max_gap=gap, extrapolate=reach).match(Times(np.array(wanted)), Times(np.array(times)))
    for k, time in enumerate(wanted):
        expected = brute(times, time, limit, reach)
        if expected is None:
            assert match.index[k] == -1 and match.residual_ns[k] == NO_MATCH_NS
        else:
            assert (match.index[k], present(match.right)[k]) == expected[:2]
            assert present(match.weight)[k] == pytest.approx(expected[2])


def test_a_driver_that_stamps_in_pairs_is_matched_and_its_drift_measured() -> None:
    start = 1_700_000_000 * 10**9
    rig = tl.ArrayStreams()
    rig.add("lidar", start + 5 * MS + np.arange(50) * 100 * MS)
    rig.add("imu", np.repeat(start + np.arange(550) * 10 * MS, 2), values=np.repeat(np.arange(550.0), 2))
    pairs = tl.align(rig, to="lidar", using={"imu": tl.Interpolate()})
    assert pairs.complete.all()
    assert np.allclose(pairs.values("imu"), np.arange(50) * 10 + 0.5)
    pairs.report()
