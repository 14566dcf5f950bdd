"""Commands as a user types them, and what they say when they are refused."""

import pytest

from progcl.cli.main import main
from support.runs import SMALL

# The flags of a small run; ProGCL-weight, its miner, mixes no negatives.
FLAGS = [f"--{key}={value}" for key, value in SMALL.items() if key not in ("miner.hardest", "miner.synthetic")]


def refusal(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The error of a command with bad input: on stderr alone, without a traceback, and with exit code 2."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(list(argv))
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err
    return err
