"""Video with B-frames: the picture of the time that was asked for, or an error; never another moment's picture."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import trainload as tl
from trainload.recordings.writing.writer import HyperframeWriter

av = pytest.importorskip("av")

COUNT, STEP_NS = 24, 33_333_333
X264 = ("libx264", "h264", {"preset": "veryfast"})
PYRAMID = ("libx264", "h264", {"preset": "veryfast", "x264-params": "bframes=4:b-pyramid=normal:open-gop=1"})
X265 = ("libx265", "hevc", {"x265-params": "log-level=none:bframes=3:keyint=12"})
OPEN = ("libx265", "h265", {"x265-params": "log-level=none:bframes=3:keyint=12:open-gop=1"})
CODERS = pytest.mark.parametrize("coder", [X264, PYRAMID, X265, OPEN], ids=["h264", "h264-pyramid", "h265", "open-gop"])


class Packet(NamedTuple):
    """One packet as the encoder gave it: the number of the picture that it holds, its bytes."""

    shown: int
    data: bytes
    key: bool


def encode(coder: tuple[str, str, dict[str, str]], *, b_frames: int = 3) -> list[Packet]:
    """Gray pictures, number k of the value 10 k, as packets in the order of decoding."""
    name, _, options = coder
    if name not in av.codecs_available:
        pytest.skip(f"this PyAV has no {name}")
    encoder = av.CodecContext.create(name, "w")
    encoder.width, encoder.height, encoder.pix_fmt = 64, 48, "yuv420p"
    encoder.time_base, encoder.framerate = Fraction(1, 30), Fraction(30)
    encoder.gop_size, encoder.max_b_frames, encoder.options = 12, b_frames, options
    packets = []
    for k in range(COUNT):
        image = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 10 * k, np.uint8), format="rgb24")
        image = image.reformat(format="yuv420p")
        image.pts = k
        packets += encoder.encode(image)
    packets += encoder.encode(None)
    return [Packet(packet.pts, bytes(packet), packet.is_keyframe) for packet in packets]


def write(path: Path, encoding: str, packets: Sequence[Packet], times: Sequence[int]) -> tl.HyperframeReader:
    with HyperframeWriter(path, window="100ms", lateness="2s", overwrite=True) as writer:
        stream = writer.add_stream("camera", kind="camera", encoding=encoding)
        for packet, time in zip(packets, times):
            writer.append(stream, time * STEP_NS, packet.data, key_frame=packet.key)
    return tl.open_recording(path)


def found_at(drive: tl.HyperframeReader, time: int) -> int | None:
    """The number of the picture that is given for a time, None where an error says that there is none."""
    try:
        frame = drive.read_at("camera", time * STEP_NS, decode=True)
    except tl.SampleError:
        return None
    assert frame is not None and frame.decoded is not None
    return round(float(frame.decoded.mean()) / 10)


@CODERS
def test_every_time_gives_its_own_picture(coder, tmp_path: Path) -> None:
    packets = encode(coder)
    assert [packet.shown for packet in packets] != sorted(packet.shown for packet in packets)
    drive = write(tmp_path / "a.hfr", coder[1], packets, [packet.shown for packet in packets])
    assert [found_at(drive, k) for k in range(COUNT)] == list(range(COUNT))


@CODERS
def test_times_in_the_order_of_decoding_are_refused(coder, tmp_path: Path) -> None:
    packets = encode(coder)
    drive = write(tmp_path / "a.hfr", coder[1], packets, range(COUNT))
    found = [found_at(drive, k) for k in range(COUNT)]
    assert all(picture in (None, k) for k, picture in enumerate(found)) and found.count(None) > COUNT // 2
    with pytest.raises(tl.SampleError, match=r"camera.*B-frames .*presentation time.*bframes=0"):
        drive.read_at_index("camera", found.index(None), decode=True)


def test_packets_that_were_written_in_the_order_of_showing_never_give_a_wrong_picture(tmp_path: Path) -> None:
    for coder in (X264, X265):
        packets = sorted(encode(coder))
        drive = write(tmp_path / "a.hfr", coder[1], packets, range(COUNT))
        assert all(found_at(drive, k) in (None, k) for k in range(COUNT))


def test_stamps_that_swap_without_b_frames_keep_their_own_pictures(tmp_path: Path) -> None:
    times = list(range(COUNT))
    times[4], times[5] = 5, 4
    for coder in (X264, ("libx265", "hevc", {"x265-params": "log-level=none:bframes=0:keyint=12"})):
        drive = write(tmp_path / "a.hfr", coder[1], encode(coder, b_frames=0), times)
        assert [found_at(drive, time) for time in times] == list(range(COUNT))


def test_a_missing_packet_is_an_error_up_to_the_next_key_frame(tmp_path: Path) -> None:
    packets = encode(X264, b_frames=0)
    with HyperframeWriter(tmp_path / "a.hfr", window="100ms") as writer:
        stream = writer.add_stream("camera", kind="camera", encoding="h264")
        for k, packet in enumerate(packets):
            if k != 4:
                writer.append(stream, k * STEP_NS, packet.data, key_frame=packet.key, stream_index=k)
    drive = tl.open_recording(tmp_path / "a.hfr")
    key = next(k for k, packet in enumerate(packets) if k > 4 and packet.key)
    expected = [None if k == 4 or 4 < k < key else k for k in range(COUNT)]
    assert [found_at(drive, k) if k != 4 else None for k in range(COUNT)] == expected
    with pytest.raises(tl.SampleError, match="1 frames between its key frame and it are missing"):
        drive.read_at("camera", 6 * STEP_NS, decode=True)
