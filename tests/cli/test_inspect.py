"""ls, show, and commands on a finished run."""

from pathlib import Path

import pytest
import yaml

from progcl.cli.main import main
from progcl.config.load import PRESETS, load_config, to_dict
from progcl.config.methods import METHODS
from progcl.config.miners import MINER_ENTRIES
from progcl.data.datasets import BUILTIN, PUBLISHED
from progcl.posteriors import POSTERIORS
from support.commands import FLAGS, refusal

LISTS = {
    "data": [*BUILTIN, *PUBLISHED],
    "methods": ["name", *METHODS],
    "miners": [*MINER_ENTRIES],
    "estimators": [*POSTERIORS],
    "presets": [*PRESETS],
}


@pytest.mark.parametrize("what", LISTS)
def test_ls_has_a_line_with_a_description_for_each(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["ls", what])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == LISTS[what]
    assert all(len(line.split(maxsplit=1)[1]) > 10 for line in lines)


def test_show_prints_a_preset_with_all_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("photo", "dgi-cora"):
        main(["show", name])
        assert yaml.safe_load(capsys.readouterr().out) == to_dict(load_config(name)), name


def test_show_prints_the_options_of_a_method_or_miner(capsys: pytest.CaptureFixture[str]) -> None:
    for section, table in (("method", METHODS), ("miner", MINER_ENTRIES)):
        for name, entry in table.items():
            main(["show", f"--{section}", name])
            head, *lines = capsys.readouterr().out.splitlines()
            assert head.split() == ["option", "default", "meaning"]
            shown = {line.split()[0].removeprefix(f"{section}.") for line in lines}
            assert shown == set(entry.options.option_names()), name
    assert "nothing to show" in refusal(capsys, "show")


def test_eval_of_a_run_repeats_its_table_and_takes_other_protocols(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    main(["train", "csbm", "--out", run, *FLAGS])
    table = capsys.readouterr().out
    main(["eval", run])
    assert capsys.readouterr().out == table
    main(["eval", run, "--protocol", "bgrl", "--splits", "1"])
    assert "1 splits, protocol `bgrl`" in capsys.readouterr().out


def test_eval_keeps_the_rows_of_a_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, data = tmp_path / "run", ["--data.name=csbm", "--data.nodes=120", "--method.holdout=0"]
    short = ["--train.epochs=2", "--batch.size=null", "--batch.steps=null", "--probe.splits=2", "--output.structure=8"]
    main(["train", "embed", *data, *short, "--output.blocks=learned", "--probe.compare=true", "--out", str(run)])
    table = capsys.readouterr().out
    assert "\n  neighbors   " in table  # the sigmoid loss: no miners to compare with
    assert "progcl" not in table
    stored = (run / "comparison.json").read_text()
    main(["eval", str(run)])
    assert (run / "comparison.json").read_text() == stored


def test_eval_of_broken_or_unprobed_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    main(["train", "csbm", "--out", run, *FLAGS, "--probe.protocol", "none"])
    assert "name one with --protocol" in refusal(capsys, "eval", run)
    (tmp_path / "run" / "embeddings.npz").write_bytes(b"broken")
    assert "is damaged" in refusal(capsys, "eval", run, "--protocol", "clean")
