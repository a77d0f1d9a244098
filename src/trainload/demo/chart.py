"""A bar chart of a demo's rows as PNG (matplotlib, extra `plots`)."""

from __future__ import annotations

from pathlib import Path

from trainload.demo.images import Row
from trainload.errors import UsageError


def draw_chart(rows: list[Row], path: Path) -> None:
    """Pictures/s and CPU ms per picture, side by side, one bar a row. Raises UsageError where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("the chart needs matplotlib: pip install 'trainload[plots]'") from None
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    names = [row.name for row in rows]
    colours = ["#8a8f98", *["#2f7ed8"] * (len(rows) - 1)]
    panels = (
        ("pictures per second (more is better)", [row.pictures_per_s for row in rows], "{:,.0f}"),
        ("CPU ms per picture (less is better)", [row.cpu_ms_per_picture for row in rows], "{:.2f}"),
    )
    for axes, (title, values, form) in zip(figure.subplots(1, 2), panels):
        bars = axes.barh(names, values, color=colours)
        axes.bar_label(bars, [form.format(value) for value in values], padding=4)
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_xlim(0, max(values) * 1.2)
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
