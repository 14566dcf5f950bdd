"""Progress bars on stderr: updated often on a terminal, every 30 seconds in a log file."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

LARGE_FILE = 30e6  # bytes, from which on reading has a bar
_shows_reading: ContextVar[bool] = ContextVar("shows_reading", default=False)


def bar(show: bool, **options: Any) -> Any:
    """A tqdm bar with these options, disabled unless `show`."""
    interval = 0.1 if sys.stderr.isatty() else 30
    return tqdm(**options, mininterval=interval, maxinterval=interval, dynamic_ncols=True, disable=not show)


@contextmanager
def show_reading() -> Iterator[None]:
    """Show a bar for every large file that `open_bytes` opens inside."""
    token = _shows_reading.set(True)
    try:
        yield
    finally:
        _shows_reading.reset(token)


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file to be read from its beginning to its end."""
    if not _shows_reading.get() or path.stat().st_size < LARGE_FILE:
        return path.open("rb")
    return io.BufferedReader(_BarReader(path), 2**16)


class _BarReader(io.RawIOBase):
    """A file, and a bar that moves as it is read, from the second piece on: the first is where a header is."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, path.open("rb", buffering=0)
        self._bar: Any = None
        self._first = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer) or 0
        if not self._first:
            self._first = count
        elif self._bar is None:
            options = {"total": self._path.stat().st_size, "unit": "B", "unit_scale": True, "leave": False}
            self._bar = bar(True, desc=f"reading {self._path.name}", initial=self._first, **options)
        if self._bar is not None:
            self._bar.update(count)
        return count

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._file.close()
        super().close()
