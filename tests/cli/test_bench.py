"""`progcl bench`: options that belong to another benchmark, or are out of range, are refused."""

import pytest

from support.commands import refusal


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["probe", "--nodes", "5"], "`--nodes` is no option of `bench probe`"),
        (["loss", "--repeats", "0"], "`--repeats` needs to be at least 1"),
        (["speed"], "speed"),
    ],
)
def test_bad_options_are_refused(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refusal(capsys, "bench", *argv)
