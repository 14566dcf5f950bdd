"""Small SVG charts: crisp text, colors that follow the theme, a few kilobytes each; for the report or as files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 24, 40  # margins around the plot area
FILE_WIDTH = 640  # of a chart in a file of its own
LEGEND_ROW, LEGEND_COLUMNS, LEGEND_MARGIN = 17, 2, 8  # height of a row and number of columns; space above the legend
MAX_POINTS = 500  # of a curve; more cannot be told apart at this size


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`."""

    label: str
    low: float
    high: float


class Chart:
    """A plot area with axes, drawn into by `stairs`, `line` and `mark`.

    `to_svg` gives an element for a page that has the rules of chart.css, `to_file` a complete SVG file. A tone
    (`tone-true`, `tone-false`, `tone-plain`) is a CSS class that sets a color in the light and in the dark theme.

    Args:
        alt: text for screen readers
        x: horizontal axis
        y: vertical axis
        right: second vertical axis, for lines in another unit

    Attributes:
        legend: CSS classes of each labeled histogram and line, by its label
    """

    def __init__(self, alt: str, x: Axis, y: Axis, right: Axis | None = None) -> None:
        self.alt, self.x, self.y, self.right = alt, x, y, right
        self.end = WIDTH - (LEFT if right else RIGHT)
        self.content: list[str] = []
        self.legend: dict[str, str] = {}

    def stairs(self, edges: Array, heights: Array, tone: str, label: str | None = None) -> None:
        """Draw a histogram: heights [bins] between edges [bins + 1]."""
        x = np.repeat(edges, 2)
        y = np.concatenate([[self.y.low], np.repeat(heights, 2), [self.y.low]])
        self._add(f"area {tone}", self._path(x, y, self.y) + "Z", label)

    def line(self, x: Array, y: Array, tone: str, label: str | None = None, right: bool = False) -> None:
        """Draw a curve through the finite points; dashed if it belongs to the right axis."""
        axis = self.right if right and self.right else self.y
        self._add(f"line dashed {tone}" if right else f"line {tone}", self._path(x, y, axis), label)

    def mark(self, x: float, text: str) -> None:
        """Draw a vertical line with a label."""
        position = self._to_x(x)
        label_left = position > (LEFT + self.end) / 2  # the side with more room
        anchor, gap = ("end", -5) if label_left else ("start", 5)
        self._add("mark", f"M{position:.1f} {TOP}V{HEIGHT - BOTTOM}")
        self.content.append(_text(position + gap, TOP + 10, text, anchor, "mark-label"))

    def to_svg(self) -> str:
        """The chart as an element for a page."""
        head = f'<svg class="progcl-chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.alt)}">'
        return "".join([head, self._draw_frame(), *self.content, "</svg>"])

    def to_file(self) -> str:
        """The chart as an SVG file that needs nothing else: with its styles, a background and the legend."""
        rows = math.ceil(len(self.legend) / LEGEND_COLUMNS)
        above = LEGEND_MARGIN + LEGEND_ROW * rows
        height = HEIGHT + above
        size = f'width="{FILE_WIDTH}" height="{FILE_WIDTH * height / WIDTH:.0f}" viewBox="0 0 {WIDTH} {height}"'
        return "\n".join(
            [
                f'<svg class="progcl-chart" xmlns="http://www.w3.org/2000/svg" {size} role="img">',
                f"<title>{escape(self.alt)}</title>",
                f"<style>\n{load_styles()}</style>",
                '<rect class="background" width="100%" height="100%"/>',
                *self._draw_legend(),
                f'<g transform="translate(0 {above})">{self._draw_frame()}',
                *self.content,
                "</g>\n</svg>\n",
            ]
        )

    def _add(self, classes: str, path: str, label: str | None = None) -> None:
        self.content.append(f'<path class="{classes}" d="{path}"/>')
        if label is not None:
            self.legend[label] = classes

    def _draw_legend(self) -> Iterator[str]:
        """Swatches and labels in columns, row by row."""
        for index, (label, classes) in enumerate(self.legend.items()):
            row, column = divmod(index, LEGEND_COLUMNS)
            x, y = LEFT + column * (WIDTH - LEFT) / LEGEND_COLUMNS, LEGEND_MARGIN + LEGEND_ROW * (row + 0.5)
            swatch = f"M{x:.1f} {y:.1f}h16" if "line" in classes.split() else f"M{x:.1f} {y - 5:.1f}h16v10h-16Z"
            yield f'<path class="{classes}" d="{swatch}"/>{_text(x + 22, y + 4, label, "start")}'

    def _draw_frame(self) -> str:
        """Axes with ticks, grid lines and labels."""
        floor = HEIGHT - BOTTOM
        elements = [
            *self._draw_x_ticks(floor + 16),
            *self._draw_y_ticks(self.y, LEFT - 6, "end", grid=True),
            f'<path class="axis" d="M{LEFT} {floor}H{self.end}"/>',
            _text((LEFT + self.end) / 2, HEIGHT - 6, self.x.label, "middle", "axis-label"),
            _text(4, 12, self.y.label, "start", "axis-label"),
        ]
        if self.right:
            elements += self._draw_y_ticks(self.right, self.end + 6, "start")
            elements.append(_text(WIDTH - 4, 12, self.right.label, "end", "axis-label"))
        return "".join(elements)

    def _draw_x_ticks(self, y: float) -> Iterator[str]:
        for value in choose_ticks(self.x.low, self.x.high):
            text = format_number(value)
            inside = min(self._to_x(value), WIDTH - 3.6 * len(text))  # so that the last one is not cut off
            yield _text(inside, y, text, "middle")

    def _draw_y_ticks(self, axis: Axis, x: float, anchor: str, grid: bool = False) -> Iterator[str]:
        for value in choose_ticks(axis.low, axis.high):
            y = self._to_y(value, axis)
            if grid:
                yield f'<path class="grid" d="M{LEFT} {y:.1f}H{self.end}"/>'
            yield _text(x, y + 4, format_number(value), anchor)

    def _to_x(self, value: float) -> float:
        return LEFT + (self.end - LEFT) * (value - self.x.low) / (self.x.high - self.x.low)

    def _to_y(self, value: float, axis: Axis) -> float:
        floor = HEIGHT - BOTTOM
        return floor - (floor - TOP) * (value - axis.low) / (axis.high - axis.low)

    def _path(self, x: Array, y: Array, axis: Axis) -> str:
        """Path through the finite points, clipped to the axis."""
        points = [(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True) if math.isfinite(b)]
        clipped = [(a, min(max(b, axis.low), axis.high)) for a, b in points]
        return "M" + "L".join(f"{self._to_x(a):.1f} {self._to_y(b, axis):.1f}" for a, b in clipped)


def draw_loss(losses: list[float], start_epoch: int | None = None) -> Chart | None:
    """Draw the loss of every epoch, downsampled if there are many, with E marked; None if no loss is finite."""
    indices, values = downsample(np.array(losses, dtype=np.float64))
    if not len(indices):
        return None
    margin = 0.05 * float(np.ptp(values)) or 0.5
    epochs = Axis("epoch", 1, max(len(losses), 2))
    alt = f"Loss over {len(losses)} epochs, from {values[0]:.4g} to {values[-1]:.4g}"
    chart = Chart(alt, epochs, Axis("loss", float(values.min()) - margin, float(values.max()) + margin))
    chart.line(indices + 1, values, "tone-true")
    if start_epoch is not None and 1 <= start_epoch <= epochs.high:
        chart.mark(start_epoch, f"E = {start_epoch}")
    return chart


def draw_strip(values: tuple[float, ...], low: float, high: float) -> str:
    """A strip plot from `low` to `high`: a dot per value and a line at the mean; fits into a table cell."""
    span = (high - low) or 1.0

    def to_x(value: float) -> float:
        return 6 + 148 * (value - low) / span

    dots = "".join(f'<circle cx="{to_x(value):.1f}" cy="10" r="3.5"/>' for value in values)
    mean = to_x(sum(values) / len(values))
    alt = f"{len(values)} split{'s' * (len(values) > 1)} from {min(values):.1f} to {max(values):.1f}"
    head = f'<svg class="progcl-chart strip" viewBox="0 0 160 20" role="img" aria-label="{alt}">'
    return f'{head}<path class="axis" d="M2 10H158"/>{dots}<path class="mean" d="M{mean:.1f} 2V18"/></svg>'


def load_styles() -> str:
    """The CSS rules of charts."""
    return files("progcl.report").joinpath("chart.css").read_text(encoding="utf-8")


def choose_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """About so many round numbers between `low` and `high`."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 12) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def downsample(values: Array, number: int = MAX_POINTS) -> tuple[Array, Array]:
    """At most `number` finite points of a curve, as indices [n] and values [n].

    The minimum and the maximum of each interval are kept, so that no spike is lost, and so are both ends.
    """
    indices = np.flatnonzero(np.isfinite(values))
    if len(indices) > number:
        kept = {int(indices[0]), int(indices[-1])}
        for interval in np.array_split(indices[1:-1], (number - 2) // 2):
            kept |= {int(interval[values[interval].argmin()]), int(interval[values[interval].argmax()])}
        indices = np.array(sorted(kept))
    return indices.astype(np.float64), values[indices]


def format_number(value: float) -> str:
    """A tick label: whole numbers with thousands separators, others to four digits."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.4g}"


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
