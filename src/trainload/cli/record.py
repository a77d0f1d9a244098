"""`trainload record --simulate`: a simulated rig into a recording, with rates, drops and MB/s live on a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table

from trainload.cli.app import app
from trainload.cli.terminal import Terminal
from trainload.errors import UsageError
from trainload.recordings.writing.recorder import Recorder, RecordSummary
from trainload.recordings.writing.simulate import make_rig, play
from trainload.recordings.writing.stats import RecorderStats

Rate = Annotated[float, typer.Option(min=0, help="Frames per second; 0 leaves it out.")]


@app.command()
def record(
    out: Annotated[Path, typer.Argument(metavar="OUT.hfr", help="The recording; with --split-*, a folder of parts.")],
    simulate: Annotated[bool, typer.Option("--simulate", help="Record a simulated rig.")] = False,
    seconds: Annotated[float, typer.Option(min=0.001, help="How long.")] = 10.0,
    speed: Annotated[float, typer.Option(min=0, help="Times real time; 0: as fast as it goes.")] = 1.0,
    cameras: Annotated[int, typer.Option(min=0, max=16)] = 3,
    camera_hz: Rate = 30.0,
    lidar_hz: Rate = 10.0,
    imu_hz: Rate = 200.0,
    radar_hz: Rate = 13.0,
    event_hz: Rate = 100.0,
    jitter: Annotated[str, typer.Option(help="Standard deviation of the timestamps.")] = "500us",
    drop: Annotated[float, typer.Option(min=0, max=1, help="Share of frames lost in the sensors.")] = 0.0,
    drift_ppm: Annotated[float, typer.Option(help="Drift of the last stream's clock; the others lie between.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    codec: Annotated[str, typer.Option(help="none, lz4, lz4hc, zstd, or with a level: zstd:9.")] = "none",
    window: Annotated[str, typer.Option(help="Target length of a window.")] = "100ms",
    policy: Annotated[str, typer.Option(help="For a full queue: block, drop_oldest, drop_newest.")] = "block",
    sync_every: Annotated[str, typer.Option(help="How often what is written is made safe.")] = "1s",
    split_bytes: Annotated[int | None, typer.Option(min=1, help="A new file once a part has this size.")] = None,
    split_duration: Annotated[str | None, typer.Option(help="A new file once a part spans this time.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what has the name.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON on stdout.")] = False,
) -> None:
    """Record a simulated rig: the same frames for the same seed, with losses and clocks that are known."""
    if not simulate:
        raise UsageError("only --simulate records from the command line; live sensors call trainload.Recorder")
    rig = make_rig(
        cameras=cameras,
        camera_hz=camera_hz,
        lidar_hz=lidar_hz,
        imu_hz=imu_hz,
        radar_hz=radar_hz,
        event_hz=event_hz,
        jitter=jitter,
        drop=drop,
        drift_ppm=drift_ppm,
        codec=codec,
    )
    recorder = Recorder(
        out,
        window=window,
        policy=policy,
        sync_every=sync_every,
        split_bytes=split_bytes,
        split_duration=split_duration,
        overwrite=overwrite,
        meta={"simulated": {"seed": seed, "drift_ppm": drift_ppm}},
    )
    with recorder, _live(recorder) as tick:
        play(recorder, rig, seconds, seed=seed, speed=speed, tick=tick)
    summary, stats = recorder.close(), recorder.stats()
    if as_json:
        typer.echo(json.dumps(_facts(summary, stats), indent=1))
    else:
        _show(summary, stats)


@contextmanager
def _live(recorder: Recorder) -> Iterator[Callable[[], None] | None]:
    """What redraws the live table; None where stderr is no terminal."""
    console = Terminal(errors=True)
    if not console.is_terminal:
        yield None
        return
    with Live(_table(recorder.stats()), console=console, auto_refresh=False, transient=True) as live:
        yield lambda: live.update(_table(recorder.stats()), refresh=True)


def _table(stats: RecorderStats) -> Table:
    table = Table(
        title=f"recording, {stats.seconds:.1f} s: {stats.megabytes_per_s:.1f} MB/s, {stats.file_bytes / 1e6:.1f} MB, "
        f"{stats.committed_windows:,} of {stats.windows:,} windows safe, queue {stats.queue_bytes / 1e6:.1f} MB"
    )
    table.add_column("stream")
    for title in ("frames", "Hz", "MB", "lost", "dropped", "late"):
        table.add_column(title, justify="right")
    for stream in stats.streams:
        table.add_row(
            stream.name,
            f"{stream.frames:,}",
            f"{stream.rate_hz:.1f}",
            f"{stream.bytes / 1e6:.1f}",
            f"{stream.lost:,}",
            f"{stream.dropped:,}",
            f"{stream.late:,}",
        )
    return table


def _facts(summary: RecordSummary, stats: RecorderStats) -> dict[str, object]:
    return {
        "parts": [asdict(part) for part in summary.parts],
        "drops": [asdict(drop) for drop in summary.drops],
        "seconds": round(stats.seconds, 3),
        "streams": {
            s.name: {"frames": s.frames, "bytes": s.bytes, "lost": s.lost, "dropped": s.dropped, "late": s.late}
            for s in stats.streams
        },
        "warnings": list(summary.warnings),
    }


def _show(summary: RecordSummary, stats: RecorderStats) -> None:
    console = Terminal()
    for stream in stats.streams:
        console.print(
            f"{stream.name}: {stream.frames:,} frames, {stream.bytes / 1e6:.1f} MB, {stream.lost:,} lost by the "
            f"sensor, {stream.dropped:,} dropped, {stream.late:,} late",
            soft_wrap=True,
        )
    for part in summary.parts:
        console.print(
            f"{part.path}: {part.frames:,} frames in {part.windows:,} windows, {part.file_bytes / 1e6:.1f} MB",
            soft_wrap=True,
        )
    for warning in summary.warnings:
        console.print(f"note: {warning}", soft_wrap=True)
