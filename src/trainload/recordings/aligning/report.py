"""How well an alignment fits, per stream: unmatched, tails, offset and drift, jitter, histogram, worst ten.

Sizes of errors are absolute residuals in ns, because a mean of signed ones hides what training meets; offset and drift
keep their sign. The tail decides: look at max and p99.9 before the mean.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.aligning.drift import fit_drift
from trainload.recordings.aligning.match import Match, Method
from trainload.recordings.aligning.pairs import Pairs
from trainload.recordings.aligning.streams import TimedStreams

HISTOGRAM_BINS = 41
WORST = 10
_PERCENTILES = (50.0, 90.0, 99.0, 99.9, 100.0)


@dataclass(frozen=True, slots=True)
class Latency:
    """Receive time minus acquisition time over a whole stream, in ns. For information; nothing is matched by it."""

    mean_ns: float
    p50_ns: float
    p99_ns: float
    max_ns: float


@dataclass(frozen=True, slots=True)
class Worst:
    """One of the largest residuals: at which reference time, and how far the sample lies from it."""

    time_ns: int
    residual_ns: int


@dataclass(frozen=True, slots=True)
class StreamReport:
    """One stream against the reference. Every statistic is NaN (null in JSON) where nothing matched.

    mean to max: absolute residuals in ns. offset_ns, drift_ppm, jitter_ns: the line fitted through the signed
    residuals, its value at the first reference time, its slope, and the standard deviation around it. unwrapped: the
    stream drifts by more than half its period, so residuals jump by a period and the fit took the jumps out.
    histogram: signed residuals, `edges_ns` has one more than `counts`.
    """

    name: str
    method: str
    clock: str
    total: int
    unmatched: int
    mean_ns: float
    p50_ns: float
    p90_ns: float
    p99_ns: float
    p99_9_ns: float
    max_ns: float
    offset_ns: float
    drift_ppm: float
    jitter_ns: float
    unwrapped: bool
    edges_ns: list[float]
    counts: list[int]
    worst: list[Worst]
    latency: Latency | None


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The report of one alignment; `print(report)` shows it, the methods save it."""

    reference: str
    pairs: int
    start_ns: int | None
    end_ns: int | None
    mixed_clocks: bool
    streams: list[StreamReport]
    source: Pairs

    def __str__(self) -> str:
        from trainload.recordings.aligning.report_text import to_text

        return to_text(self)

    def __repr__(self) -> str:
        from trainload.recordings.aligning.report_text import to_line

        return f"Report({to_line(self)})"

    def _repr_html_(self) -> str:
        from trainload.recordings.aligning.report_text import to_table

        return to_table(self)

    def facts(self) -> dict[str, Any]:
        """The same facts as plain numbers, texts and lists; NaN becomes None."""
        streams = [_without_nan(asdict(stream)) for stream in self.streams]
        names = ("reference", "pairs", "start_ns", "end_ns", "mixed_clocks")
        return {**{name: getattr(self, name) for name in names}, "streams": streams}

    def save_json(self, path: str | Path) -> None:
        """Write `facts()` as a JSON file."""
        Path(path).write_text(json.dumps(self.facts(), indent=2) + "\n")

    def save_png(self, path: str | Path) -> None:
        """Draw histogram, residual over time and tail of every stream (extra `plots`)."""
        from trainload.recordings.aligning.plots import draw

        Path(path).write_bytes(draw(self))

    def save_html(self, path: str | Path) -> None:
        """Write one file with tables and plots that needs no other (extra `plots`)."""
        from trainload.recordings.aligning.report_html import to_html

        Path(path).write_text(to_html(self), encoding="utf-8")

    def over(self, limit_ns: int, *, unmatched: int = 0) -> list[str]:
        """What a gate would refuse, one sentence per stream: residuals over the limit, more unmatched than allowed."""
        complaints = []
        for stream in self.streams:
            if stream.max_ns > limit_ns:
                complaints.append(
                    f"{stream.name}: max residual {stream.max_ns / 1e6:.3f} ms is over {limit_ns / 1e6:g} ms"
                )
            if stream.unmatched > unmatched:
                complaints.append(f"{stream.name}: {stream.unmatched:,} of {stream.total:,} are unmatched")
        return complaints


def make_report(pairs: Pairs) -> Report:
    """Measure every stream of `pairs`. Cost: a few passes and a partial sort over the residuals of each stream."""
    return Report(
        reference=pairs.reference,
        pairs=len(pairs),
        start_ns=int(pairs.times.min()) if len(pairs) else None,
        end_ns=int(pairs.times.max()) if len(pairs) else None,
        mixed_clocks=pairs.mixed_clocks,
        streams=[_measure(pairs, name, match, pairs.methods[name]) for name, match in pairs.matches.items()],
        source=pairs,
    )


def _measure(pairs: Pairs, name: str, match: Match, method: Method) -> StreamReport:
    used = match.matched
    residual = match.residual_ns[used]
    times = pairs.times[used]
    size = np.abs(residual)
    p50, p90, p99, p99_9, largest = np.percentile(size, _PERCENTILES) if len(size) else [np.nan] * len(_PERCENTILES)
    fit = fit_drift(times, residual, pairs.recording.timestamps(name))
    reach = max(float(largest), 1.0) if len(size) else 1.0
    counts, edges = np.histogram(residual, HISTOGRAM_BINS, (-reach, reach))
    return StreamReport(
        name=name,
        method=_describe(method),
        clock=pairs.recording.streams[name].clock,
        total=len(match),
        unmatched=len(match) - len(size),
        mean_ns=float(size.mean()) if len(size) else np.nan,
        p50_ns=float(p50),
        p90_ns=float(p90),
        p99_ns=float(p99),
        p99_9_ns=float(p99_9),
        max_ns=float(largest),
        offset_ns=fit.offset_ns,
        drift_ppm=fit.drift_ppm,
        jitter_ns=fit.jitter_ns,
        unwrapped=fit.unwrapped,
        edges_ns=edges.tolist(),
        counts=counts.tolist(),
        worst=_worst(times, residual, size),
        latency=_latency(pairs.recording, name),
    )


def _describe(method: Method) -> str:
    set_fields = (f"{key}={getattr(method, key)!r}" for key in getattr(method, "__dataclass_fields__", ()))
    return f"{type(method).__name__}({', '.join(text for text in set_fields if not text.endswith('=None'))})"


def _worst(times: NDArray[np.int64], residual: NDArray[np.int64], size: NDArray[np.int64]) -> list[Worst]:
    count = min(WORST, len(size))
    if not count:
        return []
    largest = np.argpartition(-size, count - 1)[:count]
    ordered = largest[np.lexsort((times[largest], -size[largest]))]
    return [Worst(int(times[row]), int(residual[row])) for row in ordered]


def _latency(recording: TimedStreams, name: str) -> Latency | None:
    received = recording.receive_times(name)
    if received is None:
        return None
    known = received > 0
    if not known.any():
        return None
    late = received[known] - recording.timestamps(name)[known]
    p50, p99 = np.percentile(late, (50, 99))
    return Latency(float(late.mean()), float(p50), float(p99), float(late.max()))


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
