"""SIGTERM and SIGINT as requests: training ends where it can be resumed; a second one stops at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from progcl.distributed import world_size

GRACE_SECONDS = 20.0  # to end an epoch in; torchrun and most schedulers kill 30 s after SIGTERM
REPEAT_SECONDS = 1.0  # torchrun passes on a Ctrl-C that its processes got themselves: twice in this time is once
NOTICE = b"\nstopping after this epoch, or this step if that takes long; Ctrl-C again stops at once\n"


class Stopped(KeyboardInterrupt):
    """A signal has ended the run; `exit_code` is the shell's, 130 for SIGINT and 143 for SIGTERM."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


class StopRequest:
    """Receives SIGINT and SIGTERM in a `with` block of the main thread; handlers are restored at its end.

    A signal raises `Stopped`. Inside `with stop.deferred():` the first one is only noted, and `stop.requested` is
    true.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._deferred = False
        self._number = 0
        self._time = 0.0

    @property
    def requested(self) -> bool:
        """Whether a signal waits to be obeyed."""
        return self._number != 0

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Note the first signal instead of raising `Stopped`."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def obey(self, seconds_left: float = float("inf")) -> None:
        """Raise `Stopped` if a signal waits, unless what is under way ends within the time of grace."""
        if self.requested and time.monotonic() + seconds_left > self._time + GRACE_SECONDS:
            raise self.error()

    def error(self) -> Stopped:
        """What the signal raises; SIGTERM if another process has received it."""
        return Stopped(self._number or signal.SIGTERM)

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.signal(each, self._receive) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *reason: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        repeated = self.requested and time.monotonic() - self._time < REPEAT_SECONDS and world_size() > 1
        if repeated:
            return
        if not self._deferred or self.requested:
            raise Stopped(number)
        self._number, self._time = number, time.monotonic()
        if os.environ.get("RANK", "0") == "0":
            os.write(2, NOTICE)  # a print may be interrupted by this very handler
