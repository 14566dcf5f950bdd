"""Bad input, said in one line with a hint, and warnings that are never swallowed as repeats."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable


class ProgclWarning(UserWarning):
    """Something goes on otherwise than asked for."""


warnings.simplefilter("always", ProgclWarning, append=True)  # Python shows a line's warning once, we each time


class InputError(ValueError):
    """Something the user gave cannot be used; `hint` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.args[0]}\n\nhint: {self.hint}" if self.hint else str(self.args[0])


def suggest(name: str, known: Iterable[str]) -> str:
    """The known name that `name` was probably meant to be, or the list of all of them."""
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1) or difflib.get_close_matches(name.lower(), choices, n=1)
    return f"did you mean `{close[0]}`?" if close else f"known: {', '.join(choices)}"


def in_range(name: str, value: float, low: float, high: float = float("inf"), hint: str = "") -> None:
    """Raise `InputError` unless low ≤ value ≤ high."""
    if not isinstance(value, (int, float)):
        raise InputError(f"`{name}` needs to be a number (got {value!r})", hint)
    if not low <= value <= high:
        bounds = f"be at least {low:g}" if high == float("inf") else f"be in [{low:g}, {high:g}]"
        raise InputError(f"`{name}` needs to {bounds} (got {value:g})", hint)
