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
        self._left: dict[str, float] = {}  # estimated seconds of stages that are still to come
        self._estimated = self._measured = 0.0

    def plan(self, stages: Mapping[str, float]) -> None:
        """Reserve time for stages to come: their estimated seconds by name."""
        self._left = dict(stages)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage."""
        start = self.clock()
        try:
            yield
        finally:
            self._estimated += self._left.pop(name, 0.0)
            self._measured += self.clock() - start

    @property
    def is_limited(self) -> bool:
        """Whether there is an end."""
        return math.isfinite(self.end)

    @property
    def pace(self) -> float:
        """Measured seconds of the stages that have ended, in units of the estimated ones; 1 before any has."""
        return min(MAX_PACE, max(MIN_PACE, self._measured / self._estimated)) if self._estimated else 1.0

    def left(self) -> float:
        """Seconds until the end."""
        return self.end - self.clock()

    def available(self, besides: str = "") -> float:
        """Seconds until the end that no planned stage needs, the stage `besides` left aside."""
        needed = sum(seconds for name, seconds in self._left.items() if name != besides)
        return self.left() - MARGIN * self.pace * needed


def parse_duration(text: str) -> float:
    """'90', '90s', '5m', '1h30m' in seconds."""
    units = {"h": 3600, "m": 60, "s": 1, "": 1}
    pieces = re.findall(r"(\d+(?:\.\d+)?)([hms]?)", text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text:
        raise InputError(f"`{text}` is not a duration", "write 90s, 5m or 1h30m")
    return sum(float(number) * units[unit] for number, unit in pieces)
