"""Errors in one line with a hint, and warnings that are shown every time."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable

MAX_LINE = 2000  # characters of an error, which may quote a cell of any length


class ProgclWarning(UserWarning):
    """The run continues, but not as requested."""


def warn(message: str, stacklevel: int = 1) -> None:
    """Like `warnings.warn`, but every time: Python's default is once per line, and filters are the user's."""
    frame = sys._getframe(1)
    for _ in range(stacklevel - 1):
        frame = frame.f_back or frame
    warnings.warn_explicit(message, ProgclWarning, frame.f_code.co_filename, frame.f_lineno)


class InputError(ValueError):
    """Invalid input from the user; `hint` says how to fix it. Both are one line, whatever they quote from a file."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(to_line(message))
        self.hint = to_line(hint)

    def __str__(self) -> str:
        return f"{self.args[0]}\n\nhint: {self.hint}" if self.hint else str(self.args[0])


def to_line(text: str) -> str:
    """Text for a terminal: line breaks and control characters are escaped, the middle of a long one is left out."""
    if len(text) > MAX_LINE:
        text = f"{text[: MAX_LINE // 2]} … {text[-MAX_LINE // 2 :]}"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def suggest(name: str, known: Iterable[str]) -> str:
    """A hint with the closest known name, or with the list of all if none is close."""
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


def count_noun(number: int, noun: str) -> str:
    """A number and what it counts: "1 node", "2,000 nodes"."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"
