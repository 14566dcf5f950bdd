"""`progcl train`: the table on stdout, progress on stderr, run folders, and what is said of an interrupted run."""

import warnings
from pathlib import Path

import pytest

from progcl.cli.main import main
from support.commands import FLAGS, refusal


def test_a_run_prints_its_table_and_is_resumed_or_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS]
    main(run)
    table, progress = capsys.readouterr()
    assert table.startswith("accuracy, mean ± std of 2 splits, protocol `clean`\n  GRACE + progcl-weight  ")
    assert "12/12" in progress
    assert "loss=" in progress
    for how in ("--resume", "--force"):
        main([*run, how])
        assert capsys.readouterr().out == table
    assert "--resume" in refusal(capsys, *run)


def test_a_comparison_prints_a_row_for_every_miner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "csbm", "--out", str(tmp_path / "run"), *FLAGS, "--probe.compare", "true"])
    rows = [line.split("  ")[1] for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [
        "raw features",
        "propagated features (no training)",
        "untrained encoder",
        "GRACE, no mining",
        "GRACE + progcl-weight",
        "GRACE + progcl-mix",
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


def test_an_interrupted_run_says_how_to_continue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("progcl.run.fit", interrupt)
    with pytest.raises(SystemExit) as stop:
        main(["train", "csbm", "--out", "somewhere"])
    assert stop.value.code == 130
    assert "add `--out somewhere --resume` to the command" in capsys.readouterr().err
