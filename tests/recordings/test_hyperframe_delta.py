"""Delta streams decode forward from their key frame; a follower reads a recording that is still being written."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import trainload as tl
from present import present
from trainload.errors import FormatError, SampleError, UsageError
from trainload.recordings.reading.follow import Follower
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.writing.writer import HyperframeWriter

# Delta streams.


class _SumDecoder:
    """A toy delta codec: a key frame sets the value, a delta adds to it."""

    def __init__(self) -> None:
        self._value: NDArray[np.uint8] | None = None

    def decode(self, data: memoryview) -> NDArray[np.uint8]:
        step = np.frombuffer(data, np.uint8)
        self._value = step[1:].copy() if step[0] else (present(self._value) + step[1:]).astype(np.uint8)
        return self._value

    def flush(self) -> None:
        return None


def test_a_delta_stream_decodes_forward_from_its_last_key_frame(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tl.register_decoder("toy-delta", _SumDecoder)
    with HyperframeWriter(tmp_path / "delta.hfr") as writer:
        stream = writer.add_stream("video", encoding="toy-delta")
        values, value = [], np.zeros(4, np.uint8)
        for i in range(30):
            step = rng.integers(0, 255, 4, np.uint8)
            key = i % 8 == 2
            value = step if key else value + step
            values.append(value)
            writer.append(stream, i * 10, bytes([key]) + step.tobytes(), key_frame=key)
    reader = HyperframeReader(tmp_path / "delta.hfr")
    for i in range(2, 30):
        frame = reader.read("video", i * 10, decode=True)
        assert frame is not None and frame.key == (i % 8 == 2)
        assert np.array_equal(present(frame.decoded), values[i])
    with pytest.raises(SampleError, match="no key frame"):
        reader.read("video", 0, decode=True)
    assert bytes(reader.read_at_index("video", 3).data)[:1] == b"\0"


def test_video_decodes_through_av(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    encoder = av.CodecContext.create("libx264", "w")
    encoder.width, encoder.height, encoder.pix_fmt, encoder.time_base = (
        64,
        48,
        "yuv420p",
        Fraction(1, 30),
    )
    encoder.options = {"tune": "zerolatency", "g": "5", "x264-params": "keyint=5:scenecut=0:repeat-headers=1"}
    with HyperframeWriter(tmp_path / "video.hfr") as writer:
        stream = writer.add_stream("camera", kind="camera", encoding="h264")
        for i in range(12):
            image = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 20 * i, np.uint8), format="rgb24")
            image.pts = i
            for packet in encoder.encode(image):
                writer.append(stream, i * 33_000_000, bytes(packet), key_frame=bool(packet.is_keyframe))
    reader = HyperframeReader(tmp_path / "video.hfr")
    for i in (0, 3, 7, 11):
        frame = reader.read_at_index("camera", i, decode=True)
        assert frame.decoded is not None and frame.decoded.shape == (48, 64, 3)
        assert abs(float(frame.decoded.mean()) - 20 * i) < 4


def test_an_encoding_without_a_decoder_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HyperframeWriter(tmp_path / "a.hfr") as writer:
        for name in ("vp9", "raw"):
            writer.append(writer.add_stream(name, encoding=name), 0, b"payload")
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.delitem(sys.modules, "trainload.recordings.reading.video", raising=False)
    reader = HyperframeReader(tmp_path / "a.hfr")
    with pytest.raises(UsageError, match=r"pip install 'trainload\[video\]'"):
        reader.read("vp9", 0, decode=True)
    frame = reader.read("raw", 0, decode=True)
    assert frame is not None and frame.decoded is not None and frame.decoded.tobytes() == b"payload"


# A file that is still being written.


def test_a_follower_reads_finished_windows_while_the_file_grows(tmp_path: Path) -> None:
    path = tmp_path / "live.hfr"
    writer = HyperframeWriter(path, window="10ms", lateness=0)
    stream = writer.add_stream("s", codec="zstd")
    writer.append(stream, 0, bytes(100))
    follower = Follower(path, poll="1ms", timeout="20s")
    got: list[tuple[int, bytes]] = []

    def follow() -> None:
        got.extend((frame.timestamp_ns, bytes(frame.data)) for window in follower for frame in window["s"])

    thread = threading.Thread(target=follow)
    thread.start()
    for i in range(1, 200):
        writer.append(stream, i * 1_000_000, i.to_bytes(2, "little") * 50)
        if i % 20 == 0:
            writer.sync()
    writer.finalize()
    thread.join(30)
    assert [time for time, _ in got] == [i * 1_000_000 for i in range(200)]
    assert got == [(frame.timestamp_ns, bytes(frame.data)) for frame in HyperframeReader(path).frames()]


@pytest.mark.parametrize(("end", "error"), [("abort", FormatError), ("detach", TimeoutError)])
def test_a_follower_says_when_the_recorder_gave_up_or_fell_silent(
    end: str, error: type[Exception], tmp_path: Path
) -> None:
    writer = HyperframeWriter(tmp_path / "live.hfr", window=10, lateness=0)
    stream = writer.add_stream("s")
    for time in (0, 5, 20, 40):
        writer.append(stream, time, b"x")
    writer.sync()
    follower = Follower(tmp_path / "live.hfr", poll="1ms", timeout="50ms")
    give_up: Callable[[], None] = getattr(writer, end)
    give_up()
    numbers = []
    with pytest.raises(error):
        for window in follower:
            numbers.append(window.number)
    assert numbers == [0, 1]
