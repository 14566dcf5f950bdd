"""`progcl info`: what a graph is like, in words and as JSON."""

import json
from pathlib import Path

import pytest

from progcl.cli.main import main
from support.commands import refusal


def test_a_file_is_described_with_an_estimate(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["info", "g.csv", "--features", "x.csv", "--labels", "y.csv"])
    out, err = capsys.readouterr()
    assert err == ""
    rows = dict(line.split("  ", 1) for line in out.splitlines() if not line.startswith("note: "))
    assert rows["nodes"].strip() == "240"
    assert "given in one direction" in rows["edges"]
    assert rows["classes"].strip() == "3"
    assert "of training" in rows["to embed it"]
    assert "note: every edge is used in both directions" in out


def test_json_is_json(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["info", "g.npz", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["nodes"], found["classes"], found["features"]) == (240, 3, 6)
    assert found["estimate"]["memory"] > 1e8
    assert found["estimate"]["seconds"].keys() >= {"train", "output", "score", "report"}


def test_a_named_graph_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    main(["info", "digits"])
    assert "nodes               1,797" in capsys.readouterr().out


def test_wrong_input_is_one_line(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.csv").write_text("a,b\nc\n")
    for graph, message in {
        "nowhere.csv": "there is no file `nowhere.csv`",
        "digit": "did you mean `digits`?",
        "bad.csv": "line 2 has 1 values",
    }.items():
        assert message in refusal(capsys, "info", graph)
