"""The parser: help, mistakes that are named with a hint, warnings, and `python -m progcl`."""

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from progcl.cli.main import COMMANDS, _parsers, main
from progcl.cli.options import expand_everyday
from progcl.config import load_config, to_dict
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
        main(["train", "--help-all"])
    assert "temperature (type: float, default: 0.4)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_on_one_screen(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*([name] if name else []), "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80


def test_options_on_the_screen_exist_and_everyday_names_are_keys() -> None:
    parsers = _parsers()[1]
    keys = {f"{section}.{key}" for section, values in to_dict(load_config("embed")).items() for key in values}
    for name, command in COMMANDS.items():
        known = {*parsers[name].flags, *command.everyday}
        assert set(re.findall(r"(?<![\w-])--[a-z][\w.-]*", command.screen)) <= {*known, "--nproc-per-node"}, name
        assert set(command.everyday.values()) <= keys, name


def test_everyday_names_set_configuration_keys() -> None:
    short = ["train", "digits", "--epochs", "3", "--seed=7", "--device", "cpu", "--miner", "none", "--dim", "4"]
    long = ["--train.epochs=3", "--train.seed=7", "--train.device=cpu", "--miner.name=none", "--output.dim=4"]
    parser = _parsers()[0]
    expanded = expand_everyday(short, COMMANDS["train"].everyday)
    parsed = [parser.parse_args(argv, defaults=False).as_dict() for argv in (expanded, ["train", "digits", *long])]
    assert parsed[0] == parsed[1]


def test_a_reader_that_has_seen_enough_ends_quietly() -> None:
    code = "import sys; from progcl.cli.main import main; main(['ls', 'presets'])"
    command = [sys.executable, "-u", "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, b"")


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
    (["tarin", "digits"], "did you mean `train`?"),
    (["train", "digits", "--outpt", "x"], "did you mean `--out`?"),
    (["train", "digits", "--output-folder", "x"], "did you mean `--out`?"),
    (["train", "digits", "--hidden", "5"], "did you mean `--encoder.hidden`?"),
    (["embed", "g.csv", "--label_column", "x"], "did you mean `--label-column`?"),
    (["train", "digits", "--xyzzy"], "`--help-all` every option"),
    (["train", "digits", "--epochs", "0"], "`train.epochs` needs to be at least 1"),
    (["embed", "g.csv", "--clusters", "some"], "needs int or 'auto'"),
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


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "there is not enough memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "there is not enough memory"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_a_lack_of_memory_or_room_is_one_line_and_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, message: str
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr("progcl.cli.main._run", fail)
    text = refusal(capsys, "train", "csbm")
    assert message in text
    assert "hint: " in text
