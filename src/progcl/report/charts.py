"""Small charts as inline SVG: crisp text, colors that follow the page's theme, a few kilobytes each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 24, 40  # margins around what is drawn
POINTS = 500  # of a curve; more cannot be told apart at this size


@dataclass(frozen=True)
class Axis:
    """The numbers from `low` to `high` along one side of a chart."""

    label: str
    low: float
    high: float


class Chart:
    """A drawing area with its axes, filled by `stairs`, `line` and `mark`; `svg` gives the picture.

    A tone is a CSS class of the page, which gives it the color of the theme.

    Args:
        alt: what those hear who cannot see the picture
        below: the axis from left to right
        left: the axis upwards
        right: another one upwards, for lines that have another unit
    """

    def __init__(self, alt: str, below: Axis, left: Axis, right: Axis | None = None) -> None:
        self.alt, self.below, self.left, self.right = alt, below, left, right
        self.end = WIDTH - (LEFT if right else RIGHT)
        self.content: list[str] = []

    def stairs(self, edges: Array, heights: Array, tone: str) -> None:
        """A histogram: heights [bins] between edges [bins + 1]."""
        x = np.repeat(edges, 2)
        y = np.concatenate([[self.left.low], np.repeat(heights, 2), [self.left.low]])
        self.content.append(f'<path class="area {tone}" d="{self._path(x, y, self.left)}Z"/>')

    def line(self, x: Array, y: Array, tone: str, right: bool = False) -> None:
        """A curve through the points that are finite; a dashed one, if it belongs to the axis on the right."""
        axis = self.right if right and self.right else self.left
        kind = "line dashed" if right else "line"
        self.content.append(f'<path class="{kind} {tone}" d="{self._path(x, y, axis)}"/>')

    def mark(self, x: float, text: str) -> None:
        """An upright line with a word beside it."""
        place = self._across(x)
        left = place > (LEFT + self.end) / 2  # where there is more room for the word
        anchor, gap = ("end", -5) if left else ("start", 5)
        self.content.append(f'<path class="mark" d="M{place:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        word = f'x="{place + gap:.1f}" y="{TOP + 10}" text-anchor="{anchor}"'
        self.content.append(f'<text class="word" {word}>{escape(text)}</text>')

    def svg(self) -> str:
        """The picture, as an element for a page."""
        head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.alt)}">'
        return "".join([head, self._frame(), *self.content, "</svg>"])

    def _frame(self) -> str:
        floor = HEIGHT - BOTTOM
        parts = [
            *self._marks_below(floor + 16),
            *self._marks_beside(self.left, LEFT - 6, "end", lines=True),
            f'<path class="axis" d="M{LEFT} {floor}H{self.end}"/>',
            _text((LEFT + self.end) / 2, HEIGHT - 6, self.below.label, "middle", "name"),
            _text(4, 12, self.left.label, "start", "name"),
        ]
        if self.right:
            parts += self._marks_beside(self.right, self.end + 6, "start")
            parts.append(_text(WIDTH - 4, 12, self.right.label, "end", "name"))
        return "".join(parts)

    def _marks_below(self, height: float) -> Iterator[str]:
        for value in ticks(self.below.low, self.below.high):
            text = spoken(value)
            inside = min(self._across(value), WIDTH - 3.6 * len(text))  # so that the last one is not cut off
            yield _text(inside, height, text, "middle")

    def _marks_beside(self, axis: Axis, x: float, anchor: str, lines: bool = False) -> Iterator[str]:
        for value in ticks(axis.low, axis.high):
            up = self._up(value, axis)
            if lines:
                yield f'<path class="grid" d="M{LEFT} {up:.1f}H{self.end}"/>'
            yield _text(x, up + 4, spoken(value), anchor)

    def _across(self, value: float) -> float:
        return LEFT + (self.end - LEFT) * (value - self.below.low) / (self.below.high - self.below.low)

    def _up(self, value: float, axis: Axis) -> float:
        floor = HEIGHT - BOTTOM
        return floor - (floor - TOP) * (value - axis.low) / (axis.high - axis.low)

    def _path(self, x: Array, y: Array, axis: Axis) -> str:
        points = [(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True) if math.isfinite(b)]
        clipped = [(a, min(max(b, axis.low), axis.high)) for a, b in points]
        return "M" + "L".join(f"{self._across(a):.1f} {self._up(b, axis):.1f}" for a, b in clipped)


def strip(values: tuple[float, ...], low: float, high: float) -> str:
    """Dots on a line from `low` to `high`, and a stroke at their mean; small enough for a cell of a table."""
    span = (high - low) or 1.0

    def place(value: float) -> float:
        return 6 + 148 * (value - low) / span

    dots = "".join(f'<circle cx="{place(value):.1f}" cy="10" r="3.5"/>' for value in values)
    mean = place(sum(values) / len(values))
    alt = f"{len(values)} splits from {min(values):.1f} to {max(values):.1f}"
    head = f'<svg class="strip" viewBox="0 0 160 20" role="img" aria-label="{alt}">'
    return f'{head}<path class="axis" d="M2 10H158"/>{dots}<path class="mean" d="M{mean:.1f} 2V18"/></svg>'


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from `low` to `high`, about so many."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 12) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def thinned(values: Array, number: int = POINTS) -> tuple[Array, Array]:
    """At most `number` points of a curve, as places [n] from 0 on and values [n].

    Of each stretch the lowest and the highest stay, so that no spike is lost; and the ends stay.
    """
    places = np.flatnonzero(np.isfinite(values))
    if len(places) > number:
        kept = {int(places[0]), int(places[-1])}
        for stretch in np.array_split(places[1:-1], (number - 2) // 2):
            kept |= {int(stretch[values[stretch].argmin()]), int(stretch[values[stretch].argmax()])}
        places = np.array(sorted(kept))
    return places.astype(np.float64), values[places]


def spoken(value: float) -> str:
    """A number as a reader expects it beside an axis."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.4g}"


def _text(x: float, y: float, text: str, anchor: str, tone: str = "tick") -> str:
    return f'<text class="{tone}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
