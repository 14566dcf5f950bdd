"""The parser: help, mistakes that are named with a hint, warnings, and `python -m progcl`."""

import runpy
import sys
from pathlib import Path

import pytest

from progcl.cli.main import COMMANDS, main
from support.commands import refusal


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name, command in COMMANDS.items():
        with pytest.raises(SystemExit) as stop:
            main([name, "--help"])
        assert stop.value.code == 0
        out = capsys.readouterr().out
        assert out.startswith(f"usage: progcl {name} "), name
        assert command.help in " ".join(out.split()), name


def test_help_tells_types_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "temperature (type: float, default: 0.4)" in " ".join(capsys.readouterr().out.split())


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert "0.1.0" in capsys.readouterr().out


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    out = capsys.readouterr().out
    assert "usage: progcl" in out
    assert all(name in out for name in COMMANDS)


BAD = [
    (["train", "digits", "--train.epoch", "5"], "did you mean `--train.epochs`?"),
    (["train", "digits", "--train.epochs", "x"], "`train.epochs`"),
    (["train", "digits", "--train.epochs", "0"], "at least 1"),
    (["train", "digits", "--loss.tau", "0"], "the paper uses 0.2 to 0.4"),
    (["train", "digits", "--miner.name", "progcl-wait"], "did you mean `progcl-weight`?"),
    (["train", "digits", "--method.name", "gcaa"], "did you mean `gca`?"),
    (["train", "digits", "--method.teleport", "0.1"], "`merit` and `mvgrl` have it"),
    (["train", "fotos"], "did you mean `photo`?"),
    (["train", "absent.yaml"], "there is no file"),
    (["train", "digits", "--data.nodes", "5"], "no option `nodes`"),
    (["train", "digits", "--resume"], "--resume needs --out"),
    (["train"], "source"),
    (["tarin", "digits"], "tarin"),
    (["ls", "models"], "models"),
    (["show", "fotos"], "did you mean `photo`?"),
    (["eval", "nowhere"], "holds no finished run"),
    (["eval", "nowhere", "--protocl", "gca"], "did you mean `--protocol`?"),
    (["train", "digits", "--method.drop_edges", "0.3,0.4"], '"[0.3, 0.4]"'),
    (["train", "digits", "--miner.variant", "paepr"], "needs one of 'paper', 'released'"),
    (["train", "digits", "--data.nodes", "many"], "`data.nodes` needs int"),
]


def test_bad_input_is_an_error_with_a_hint_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for argv, message in BAD:
        assert message in refusal(capsys, *argv), argv
        assert not list(tmp_path.iterdir()), argv


def test_python_m_progcl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["progcl", "ls", "presets"])
    runpy.run_module("progcl", run_name="__main__")
    assert "photo" in capsys.readouterr().out
