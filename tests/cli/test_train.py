"""`progcl train`: the table on stdout, progress on stderr, run folders, and what is said of an interrupted run."""

import os
import re
import shlex
import signal
import warnings
from pathlib import Path
from typing import Any

import pytest

from progcl.cli.main import main
from progcl.training.checkpoint import load
from progcl.training.trainer import Trainer
from support.commands import FLAGS, refusal
from support.runs import assert_same_run


def test_a_run_prints_its_table_and_is_resumed_or_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS]
    main(run)
    table, progress = capsys.readouterr()
    head, _, row, majority = table.splitlines()
    assert head.startswith("mean ± std of 2 splits, protocol `clean`")
    assert row.startswith("  GRACE + progcl-weight  ")
    assert majority.startswith("  always the largest class  ")
    assert "12/12" in progress
    assert "loss=" in progress
    for how in ("--resume", "--force"):
        main([*run, how])
        assert capsys.readouterr().out == table
    assert "--resume" in refusal(capsys, *run)


def test_a_comparison_prints_a_row_for_every_miner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS, "--probe.compare", "true"])
    rows = [line.split("  ")[1] for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows == [
        "raw features",
        "propagated features (no training)",
        "untrained encoder",
        "GRACE, no mining",
        "GRACE + progcl-weight",
        "GRACE + progcl-mix",
        "always the largest class",
    ]


def test_runs_without_out_go_to_new_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        main(["train", "csbm", *FLAGS, "--probe.protocol", "none"])
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"csbm", "csbm-2"}
    assert capsys.readouterr().out == ""


def test_a_section_is_read_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.yaml").write_text("epochs: 7\n")
    main(["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS, "--train", str(tmp_path / "train.yaml")])
    assert "7/7" in capsys.readouterr().err


def test_a_warning_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        main(["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS, "--train.epochs", "3"])
    out, err = capsys.readouterr()
    assert "warning: no mining: miner.start_epoch is 6, the last epoch 3\n" in err
    assert ".py" not in err
    assert "GRACE + progcl-weight (no mixture, so no mining)" in out


def test_divergence_is_an_error_below_the_progress_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS, "--train.lr", "1e30"])
    assert stop.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-3].startswith("error: row 0 of the embeddings is not finite")
    assert lines[-1] == "hint: has training diverged? Try a smaller learning rate, --train.lr"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_epoch_and_the_command_that_is_told_continues(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The signal comes in the third epoch of twelve, in which no checkpoint is due."""
    step, steps = Trainer._step, []

    def step_and_signal(trainer: Trainer, *arguments: Any) -> float:
        steps.append(1)
        if len(steps) == 3:
            os.kill(os.getpid(), number)
        return step(trainer, *arguments)

    monkeypatch.chdir(tmp_path)
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    main(["train", "csbm", "--out", "whole", *FLAGS])
    table = capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", step_and_signal)
        with pytest.raises(SystemExit) as stop:
            main(["train", "csbm", "--out", "stopped", *FLAGS])
    assert stop.value.code == 128 + number
    assert handlers == [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    (command,) = re.findall("to continue: progcl (.*)\n", capsys.readouterr().err)
    assert command == "train stopped/config.yaml --out stopped --resume"
    assert len(load(Path("stopped/checkpoint.safetensors"))[1]["records"]) == len(steps) == 3
    main(shlex.split(command))
    assert capsys.readouterr().out == table
    assert_same_run(Path("whole"), Path("stopped"))


def test_a_run_that_is_stopped_before_it_begins_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def terminate(*arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("progcl.run.load_data", terminate)
    with pytest.raises(SystemExit) as stop:
        main(["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS])
    assert stop.value.code == 143
    assert "to continue" not in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("processes", "flags", "message"),
    [
        ("2", ["--probe.compare", "false"], "several processes need --out"),
        ("2", ["--probe.compare", "true", "--out", "run"], "a comparison runs in one process"),
        ("1", ["--probe.compare", "true", "--out", "run", "--tensorboard"], "a comparison is several runs"),
    ],
)
def test_what_several_processes_or_runs_cannot_do_is_refused_before_anything_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    processes: str,
    flags: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", processes)
    assert message in refusal(capsys, "train", "csbm", *FLAGS, *flags)
    assert not list(tmp_path.iterdir())
