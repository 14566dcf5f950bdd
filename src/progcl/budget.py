"""The time that a run may take: what cannot be left out is reserved, training and scoring get the rest."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from progcl.errors import InputError

Clock = Callable[[], float]
MIN_PACE, MAX_PACE = 0.5, 8.0  # of this machine, as it is busy now, in units of the one that the estimates are from
SETTLED = 1.0  # seconds, which stages have to exceed by much before they tell the pace
MARGIN = 1.15  # by which stages may take longer than estimated at the present pace


class Budget:
    """Divides the time until an end between the stages of a run.

    Stages that cannot be left out (`plan`) have estimates. How long those that have ended took corrects the others:
    the same work takes twice as long on a slower machine, or while something else runs. `available` is what a stage
    that can be shortened may take, so that all later ones still end in time.

    Args:
        seconds: from now on; infinite for no limit
        clock: tells the time in seconds; another one than the machine's is for tests
    """

    def __init__(self, seconds: float = math.inf, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self.end = clock() + seconds
        self.epoch: float | None = None  # estimated seconds of one, at pace 1
        self._left: dict[str, float] = {}  # estimated seconds of stages that are still to come
        self._estimated = self._measured = 0.0

    def plan(self, stages: Mapping[str, float]) -> None:
        """Reserve time for stages to come: their estimated seconds by name."""
        self._left = dict(stages)

    @contextmanager
    def stage(self, *names: str) -> Iterator[None]:
        """Measure a stage that does what was planned by these names."""
        start = self.clock()
        try:
            yield
        finally:
            self.record(sum(self._left.pop(name, 0.0) for name in names), self.clock() - start)

    def record(self, estimated: float, measured: float) -> None:
        """Learn the pace from how long something took that was estimated."""
        self._estimated += estimated
        self._measured += measured

    @property
    def is_limited(self) -> bool:
        """Whether there is an end."""
        return math.isfinite(self.end)

    @property
    def pace(self) -> float:
        """Measured seconds of the stages that have ended, in units of the estimated ones; short ones tell little."""
        return min(MAX_PACE, max(MIN_PACE, (self._measured + SETTLED) / (self._estimated + SETTLED)))

    def left(self) -> float:
        """Seconds until the end."""
        return self.end - self.clock()

    def release(self, stage: str) -> None:
        """Keep no more time for a stage: it begins, and takes what is available, or is left out."""
        self._left.pop(stage, None)

    def available(self) -> float:
        """Seconds until the end that no planned stage needs."""
        return self.left() - MARGIN * self.pace * sum(self._left.values())


def parse_duration(text: str) -> float:
    """'90', '90s', '5m', '1h30m' in seconds."""
    units = {"h": 3600, "m": 60, "s": 1, "": 1}
    pieces = re.findall(r"(\d+(?:\.\d+)?)([hms]?)", text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text:
        raise InputError(f"`{text}` is not a duration", "write 90s, 5m or 1h30m")
    return sum(float(number) * units[unit] for number, unit in pieces)


def format_seconds(seconds: float) -> str:
    """A duration in two units: 45 s, 12 min, 3 h 20 min."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
