import sys
import warnings
from pathlib import Path

import pytest

from progcl import run as train
from progcl.cli.main import main
from progcl.config.load import PRESETS
from support.runs import SMALL

FLAGS = [f"--{key}={value}" for key, value in SMALL.items()]


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What a command with bad input says on stderr; it prints nothing else and exits with 2."""
    with pytest.raises(SystemExit) as stop:
        main(list(argv))
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err
    return err


def test_train_then_eval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    main(["train", "csbm", "--out", run, *FLAGS])
    trained = capsys.readouterr().out
    assert "protocol `clean`" in trained
    assert "GRACE + progcl-weight" in trained
    main(["eval", run])
    assert capsys.readouterr().out == trained
    main(["eval", run, "--protocol", "bgrl", "--splits", "1"])
    assert "1 splits, protocol `bgrl`" in capsys.readouterr().out


def test_train_shows_progress_on_stderr_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS, "--miner.name", "none"])
    out, err = capsys.readouterr()
    assert "epoch" not in out
    assert "12/12" in err
    assert "loss=" in err


def test_train_prints_the_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS, "--probe.compare", "true"])
    out = capsys.readouterr().out
    for row in ("raw features", "untrained encoder", "GRACE, no mining", "GRACE + progcl-mix"):
        assert row in out


def test_runs_without_out_go_to_fresh_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        main(["train", "csbm", *FLAGS, "--probe.protocol", "none"])
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"csbm", "csbm-2"}
    assert capsys.readouterr().out == ""


def test_resume_and_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS]
    main(run)
    first = capsys.readouterr().out
    for how in ("--resume", "--force"):
        main([*run, how])
        assert capsys.readouterr().out == first
    assert "--resume" in refused(capsys, *run)


@pytest.mark.parametrize("what", ["data", "methods", "miners", "presets"])
def test_ls(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["ls", what])
    out = capsys.readouterr().out
    expected = {"data": "photo", "methods": "gca", "miners": "progcl-mix", "presets": "gca-photo"}
    assert expected[what] in out
    assert all(len(line.split(maxsplit=1)) == 2 for line in out.splitlines())


@pytest.mark.parametrize("preset", PRESETS)
def test_show(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", preset])
    assert "start_epoch:" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["--help"], ["train", "--help"], ["eval", "--help"], ["ls", "--help"], ["--version"]])
def test_help(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert not stop.value.code
    assert capsys.readouterr().out


def test_help_tells_types_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "temperature (type: float, default: 0.4)" in " ".join(capsys.readouterr().out.split())


def test_a_section_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.yaml").write_text("epochs: 7\n")
    main(["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS, "--train", str(tmp_path / "train.yaml")])
    assert "7/7" in capsys.readouterr().err


def test_warnings_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        main(["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS, "--train.epochs", "3"])
    out, err = capsys.readouterr()
    assert "warning: no mining: miner.start_epoch is 6, the last epoch 3\n" in err
    assert ".py" not in err
    assert "GRACE + progcl-weight (no mixture, so no mining)" in out


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    assert "usage: progcl" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["train", "digits", "--train.epoch", "5"], "did you mean `--train.epochs`?"),
        (["train", "digits", "--train.epochs", "x"], "`train.epochs`"),
        (["train", "digits", "--train.epochs", "0"], "at least 1"),
        (["train", "digits", "--loss.tau", "0"], "the paper uses 0.2 to 0.4"),
        (["train", "digits", "--miner.name", "progcl-wait"], "did you mean `progcl-weight`?"),
        (["train", "digits", "--method.name", "gcaa"], "did you mean `gca`?"),
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
    ],
)
def test_bad_input(
    argv: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refused(capsys, *argv)
    assert not list(tmp_path.iterdir())


def test_divergence_comes_after_the_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS, "--train.lr", "1e30"])
    lines = capsys.readouterr().err.splitlines()
    assert lines[-3].startswith("error: the loss of epoch")
    assert lines[-1] == "hint: try a smaller --train.lr"


def test_eval_of_broken_or_unprobed_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS, "--probe.protocol", "none"])
    capsys.readouterr()
    assert "name one with --protocol" in refused(capsys, "eval", str(tmp_path / "run"))
    (tmp_path / "run" / "embeddings.npz").write_bytes(b"broken")
    assert "holds no embeddings" in refused(capsys, "eval", str(tmp_path / "run"), "--protocol", "clean")


def test_ctrl_c_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "fit", interrupted)
    with pytest.raises(SystemExit) as stop:
        main(["train", "csbm", "--out", "somewhere"])
    assert stop.value.code == 130
    assert "add `--out somewhere --resume` to the command" in capsys.readouterr().err


def test_python_m_progcl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import runpy

    monkeypatch.setattr(sys, "argv", ["progcl", "ls", "presets"])
    runpy.run_module("progcl", run_name="__main__")
    assert "photo" in capsys.readouterr().out
