"""Error lines, whatever they quote."""

import pytest

from progcl import InputError
from progcl.errors import MAX_LINE, suggest, to_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("holds `é` in column `größe`", "holds `é` in column `größe`"),
        ("holds `1\nn3,f0` in column `value`", "holds `1\\nn3,f0` in column `value`"),
        ("a\r\u2028b\tc", "a\\r\\u2028b\\tc"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),  # would color a terminal
        ("\udcff", "\\udcff"),  # a byte that is no text could not be printed at all
    ],
)
def test_what_a_file_holds_does_not_break_the_line(text: str, line: str) -> None:
    assert to_line(text) == line
    error = InputError(text, f"hint {text}")
    assert str(error) == f"{line}\n\nhint: hint {line}"
    str(error).encode()


def test_a_long_cell_is_cut_in_its_middle() -> None:
    message = str(InputError(f"holds `{'9' * 5000}` in column `value`"))
    assert len(message) < MAX_LINE + 10
    assert message.startswith("holds `999")
    assert message.endswith("9` in column `value`")
    assert to_line("9" * MAX_LINE) == "9" * MAX_LINE


def test_suggestions() -> None:
    assert suggest("Cots", ["size", "cost"]) == "did you mean `cost`?"
    assert suggest("COST", ["size", "cost"]) == "did you mean `cost`?"
    assert suggest("xyz", ["size", "cost"]) == "known: cost, size"
