"""Progress bars on stderr: updated often on a terminal, every 30 seconds in a log file."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm


def bar(show: bool, **options: Any) -> Any:
    """A tqdm bar with these options, disabled unless `show`."""
    interval = 0.1 if sys.stderr.isatty() else 30
    return tqdm(**options, mininterval=interval, maxinterval=interval, dynamic_ncols=True, disable=not show)
