"""Results come first: whatever happens to the scoring, the embeddings are final, and what was scored is kept."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from progcl import fit
from progcl.cli.main import main
from progcl.evaluation import scoring
from progcl.evaluation.health import REST
from progcl.evaluation.probe import PROTOCOLS, SplitScore, probe_clean
from progcl.training.files import load_embeddings
from support.commands import refusal
from support.runs import read_result, small

# Of two epochs, embeddings are worse than features of several hops
pytestmark = pytest.mark.filterwarnings("ignore:no mixture fitted", "ignore:no mining", "ignore:.*scores .*, below")
QUICK = ["--train.epochs=2", "--encoder.hidden=16", "--probe.splits=3"]
EMBED = ["embed", "g.csv", "--features", "x.csv", "--labels", "y.csv", "-o", "out", *QUICK]


LOCK_AND_WAIT = """
from pathlib import Path
from progcl.training.lock import lock_folder

with lock_folder(Path("out")):
    print(flush=True)
    input()
"""


def fail_after(splits: int, happen: Callable[[], object]) -> Callable[..., Iterator[SplitScore]]:
    """The protocol `clean`, to which something happens after so many splits."""
    left = [splits]

    def probe(embeddings: Tensor, labels: Any, drawn: Any) -> Iterator[SplitScore]:
        for score in probe_clean(embeddings, labels, drawn):
            if not left[0]:
                happen()
            left[0] -= 1
            yield score

    return probe


def interrupt(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def use_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    main(["neighbors", "out", "n7"])
    main(["export", "out", "--format", "word2vec"])
    main(["report", "out"])
    capsys.readouterr()
    assert "n17" in Path("out/report.html").read_text()
    assert len(Path("out.vec").read_text().splitlines()) == 241
    assert len(load_embeddings(Path("out/embeddings.npz")).ids) == 240


@pytest.mark.parametrize("splits", [0, 2, 4])
def test_ctrl_c_while_scoring_keeps_what_there_is(
    splits: int, user_graph: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PROTOCOLS, "clean", fail_after(splits, interrupt))
    with pytest.raises(SystemExit, match="130"):
        main(EMBED)
    err = capsys.readouterr().err
    assert "the embeddings in out are complete" in err
    assert re.search("for what is left: progcl embed .*--resume\nto see them: progcl report out\n", err)
    assert Path("out/embeddings.parquet").exists()
    score = read_result(Path("out"))["score"]
    assert len(score["accuracies"] if score else ()) == min(splits, 3)
    assert (f"mean ± std of {min(splits, 3)} splits" in err) == (splits > 0)
    assert (f"{REST} (1 split)" in err) == (splits == 4)
    use_all_commands(capsys)

    monkeypatch.setitem(PROTOCOLS, "clean", probe_clean)
    main(["eval", "out"])
    table = capsys.readouterr().out
    assert "mean ± std of 3 splits" in table
    main(["embed", "g.csv", "--features", "x.csv", "--labels", "y.csv", "-o", "whole", *QUICK])
    for name in ("result.json", "comparison.json"):
        stored = [json.loads(Path(folder, name).read_text()) for folder in ("out", "whole")]
        for each in stored:
            each.pop("seconds", None), each.pop("checksum"), each.pop("config", None)
        assert stored[0] == stored[1]
    assert table in capsys.readouterr().err


def test_embeddings_are_final_before_the_first_split(
    user_graph: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a process that is killed while it scores leaves behind."""
    final: dict[str, Any] = {}

    def look() -> None:
        final.setdefault("vectors", load_embeddings(Path("out/embeddings.npz")).vectors)
        final.setdefault("score", json.loads(Path("out/result.json").read_text())["score"])

    monkeypatch.setitem(PROTOCOLS, "clean", fail_after(0, look))
    main(EMBED)
    assert final["score"] is None
    np.testing.assert_array_equal(final["vectors"], load_embeddings(Path("out/embeddings.npz")).vectors)


@pytest.mark.filterwarnings("default:not scored")
def test_labels_that_cannot_be_scored_do_not_cost_the_embeddings(
    user_graph: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ValueError("one class")

    monkeypatch.setitem(PROTOCOLS, "clean", fail_after(1, fail))
    main(EMBED)
    assert "warning: not scored: the labels of a split are too few to fit a classifier: one class" in (
        capsys.readouterr().err
    )
    assert len(read_result(Path("out"))["score"]["accuracies"]) == 1
    use_all_commands(capsys)


def test_scoring_takes_no_longer_than_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "MIN_SECONDS", 0.0)
    lengths = {limit: fit(small(probe__splits=3, probe__limit=limit)).score for limit in (0.0, 1e6, None)}
    assert {limit: score and len(score.accuracies) for limit, score in lengths.items()} == {0.0: None, 1e6: 3, None: 3}


def test_a_stopped_training_goes_on_and_a_stopped_scoring_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(PROTOCOLS, "clean", fail_after(1, interrupt))
    command = ["train", "csbm", "--data.nodes=150", "--train.epochs=2", "--miner.name=none", "--probe.splits=2"]
    with pytest.raises(SystemExit, match="130"):
        main([*command, "--out", "run"])
    err = capsys.readouterr().err
    assert "mean ± std of 1 splits" in err
    monkeypatch.setitem(PROTOCOLS, "clean", probe_clean)
    main(["eval", "run", "--splits", "2"])
    assert len(read_result(Path("run"))["score"]["accuracies"]) == 1  # with options, nothing is stored
    again = re.search("for what is left: progcl (.*)", err)
    assert again
    main(shlex.split(again[1]))
    assert len(read_result(Path("run"))["score"]["accuracies"]) == 2


@pytest.mark.parametrize("left", [["--clusters", "3"], ["--clusters", "3", "--memory", "8GB"]])
def test_a_run_without_labels_that_is_stopped_while_its_report_is_drawn_goes_on(
    left: list[str], user_graph: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_labels = EMBED[: EMBED.index("--labels")] + EMBED[EMBED.index("--labels") + 2 :]
    with monkeypatch.context() as patch:
        patch.setattr("progcl.embed.write_report", interrupt)
        with pytest.raises(SystemExit, match="130"):
            main([*without_labels, *left])
    assert not Path("out/report.html").exists()
    again = re.search("for what is left: progcl (.*)", capsys.readouterr().err)
    assert again
    assert all(word in shlex.split(again[1]) for word in left[2:])
    main(shlex.split(again[1]))
    assert Path("out/report.html").exists()


def test_a_graph_with_its_nodes_in_another_order_is_not_scored_as_the_embedded_one(
    user_graph: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(EMBED)
    before = read_result(Path("out"))
    for file in (Path("g.csv"), Path("x.csv")):
        lines = file.read_text().splitlines()
        file.write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    for command in ("eval", "report", "links"):
        assert "another order of them" in refusal(capsys, command, "out")
    assert read_result(Path("out")) == before
    capsys.readouterr()
    main(["export", "out", "--clusters", "3", "--out", "exported.npz"])
    assert "not compared with labels: the graph has other nodes" in capsys.readouterr().err


def test_scores_are_not_stored_beside_a_run_that_is_under_way(
    user_graph: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(EMBED)
    owner = [sys.executable, "-c", LOCK_AND_WAIT]
    with subprocess.Popen(owner, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        other.stdout.readline()
        assert "is under way" in refusal(capsys, "eval", "out")
        other.communicate("\n")
    main(["eval", "out"])
