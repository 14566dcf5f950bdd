"""`progcl transform` and `progcl embed --from` as a user meets them: grown graphs, other columns, wrong folders."""

import json
from pathlib import Path

import numpy as np
import pytest

from progcl.checksums import read_json
from progcl.cli.main import main
from progcl.training.files import load_embeddings
from support.commands import refusal
from support.graphs import write_grown_graph

QUICK = ["--train.epochs=8", "--encoder.hidden=16", "--probe.protocol=none"]
OLD = ["embed", "old.csv", "--features", "oldx.csv", "-o", "old", *QUICK]


@pytest.fixture
def grown_graph(user_graph: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `user_graph`, with the graph of its first 190 nodes in old.csv and oldx.csv; no maps are drawn."""
    write_grown_graph(user_graph)
    monkeypatch.setattr("progcl.embed.write_report", lambda *arguments, **options: None)
    return user_graph


def vectors_of(folder: str) -> dict[str, np.ndarray]:
    vectors, ids = load_embeddings(Path(folder, "embeddings.npz"))
    return dict(zip(ids, vectors, strict=True))


def largest_difference(first: str, second: str) -> float:
    one, other = vectors_of(first), vectors_of(second)
    assert list(one) == list(other)
    return max(float(np.abs(one[name] - other[name]).max()) for name in one)


@pytest.mark.parametrize("reduced", [False, True])
def test_new_nodes_join_the_space_of_a_run(
    reduced: bool, grown_graph: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*OLD, *(["--dim", "9"] if reduced else [])])
    main(["transform", "old", "old.csv", "--features", "oldx.csv", "-o", "same"])
    assert largest_difference("old", "same") < 1e-5
    capsys.readouterr()
    main(["transform", "old", "g.csv", "--features", "x.csv", "-o", "grown"])
    out, err = capsys.readouterr()
    assert out == "grown/embeddings.npz\n"
    assert "note: 50 of 240 nodes are new; the others compare with their vectors in the run: mean cosine 0.9" in err
    old, grown = vectors_of("old"), vectors_of("grown")
    assert list(grown) == [f"n{node}" for node in range(240)]
    assert grown["n0"].shape == old["n0"].shape
    facts = read_json(Path("grown/result.json"))["transform"]
    assert (facts["nodes"], facts["known"]) == (240, 190)
    main(["neighbors", "grown", "n239", "--number", "3"])
    assert len(capsys.readouterr().out.splitlines()) == 4
    main(["export", "grown", "--format", "word2vec"])
    main(["export", "grown", "--format", "parquet", "--out", "again.parquet"])
    assert Path("again.parquet").read_bytes() == Path("grown/embeddings.parquet").read_bytes()


def test_graphs_without_features_grow_too(grown_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["embed", "old.csv", "-o", "old", *QUICK])
    main(["transform", "old", "old.csv", "-o", "same"])
    assert largest_difference("old", "same") < 1e-5
    capsys.readouterr()
    main(["transform", "old", "g.csv", "--features", "x.csv", "-o", "grown"])
    assert "features are not used" in capsys.readouterr().err
    assert len(vectors_of("grown")) == 240
    Path("other.csv").write_text("a,b\nb,c\nc,a\n")
    error = refusal(capsys, "transform", "old", "other.csv", "-o", "other")
    assert "only a graph with nodes of the earlier one" in error


@pytest.mark.parametrize("features", [[], ["--features", "x.csv"]])
def test_weights_and_directions_are_those_of_the_run(
    features: list[str], grown_graph: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header, *edges = Path("old.csv").read_text().splitlines()
    rows = [f"{edge},{1 + place % 7}" for place, edge in enumerate(edges)]
    Path("w.csv").write_text("\n".join([f"{header},strength", *rows]) + "\n")
    old = features and ["--features", "oldx.csv"]
    main(["embed", "w.csv", *old, "--weight", "strength", "--directed", "-o", "old", *QUICK])
    main(["transform", "old", "w.csv", *old, "-o", "same"])
    assert largest_difference("old", "same") < 1e-5
    Path("flat.csv").write_text("\n".join([f"{header},strength", *(f"{edge},1" for edge in edges)]) + "\n")
    main(["transform", "old", "flat.csv", *old, "-o", "flat"])
    assert largest_difference("old", "flat") > 0.01
    turned = [",".join([*edge.split(",")[::-1], "1"]) for edge in edges]
    Path("both.csv").write_text("\n".join([f"{header},strength", *(f"{edge},1" for edge in edges), *turned]) + "\n")
    main(["transform", "old", "both.csv", *old, "-o", "both"])
    assert largest_difference("flat", "both") > 0.01
    grown = [f"{edge},{1 + place % 7}" for place, edge in enumerate(Path("g.csv").read_text().splitlines()[1:])]
    Path("grown.csv").write_text("\n".join([f"{header},power", *grown]) + "\n")
    assert "no column `strength`" in refusal(capsys, "transform", "old", "grown.csv", *features, "-o", "grown")
    main(["transform", "old", "grown.csv", *features, "--weight", "power", "-o", "grown"])
    assert len(vectors_of("grown")) == 240
    main(["embed", "grown.csv", *features, "--weight", "power", "--from", "old", "-o", "warm"])
    assert read_json(Path("warm/result.json"))["facts"]["alignment"]["nodes"] == 190


def test_columns_are_read_as_before(grown_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ",".join(["id", *(f"f{column}" for column in range(6))])
    old, rows = (Path(name).read_text().splitlines() for name in ("oldx.csv", "x.csv"))
    towns = [f"{row},{['Rome', 'Oslo'][place % 2]}" for place, row in enumerate(old)]
    Path("oldx.csv").write_text("\n".join([f"{names},town", *towns]))
    main(OLD)
    Path("less.csv").write_text("\n".join([names, *rows]))
    error = refusal(capsys, "transform", "old", "g.csv", "--features", "less.csv", "-o", "out")
    assert "the embedding was made of column `town`, which is missing here" in error
    more = [f"{row},{'Bern' if row.startswith('n7,') else 'Oslo'},1" for row in rows]
    Path("more.csv").write_text("\n".join([f"{names},town,age", *more]))
    main(["transform", "old", "g.csv", "--features", "more.csv", "-o", "out"])
    notes = capsys.readouterr().err
    assert "not used, as the embedding was made without: column `age`" in notes
    assert "values of column `town` that were not there before count as none: `Bern`" in notes
    error = refusal(capsys, "transform", "old", "g.csv", "-o", "none")
    assert "--features FILE" in error
    assert not Path("none").exists()


def test_runs_without_a_model_say_why(grown_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no file `nowhere`" in refusal(capsys, "transform", "nowhere", "g.csv")
    Path("empty").mkdir()
    assert "is no folder of a run" in refusal(capsys, "transform", "empty", "g.csv")
    main(OLD)
    again = ["transform", "old", "g.csv", "--features", "x.csv", "-o", "out"]
    main(again)
    assert "--force" in refusal(capsys, *again)
    main([*again, "--force"])
    assert "holds a run" in refusal(capsys, *again[:-1], "old", "--force")
    content = bytearray(Path("old/model.safetensors").read_bytes())
    content[-5] ^= 1
    Path("old/model.safetensors").write_bytes(content)
    assert "its checksum does not match" in refusal(capsys, *again, "--force")
    Path("old/model.safetensors").unlink()
    assert "an earlier version made it" in refusal(capsys, *again, "--force")
    main(["embed", "g.csv", "-o", "walks", "--method.name=deepwalk", *QUICK[::2], "--train.epochs=1"])
    assert "method `deepwalk` embeds only the graph" in refusal(capsys, "transform", "walks", "g.csv", "-o", "no")


def test_a_run_starts_from_another(grown_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(OLD)
    capsys.readouterr()
    warm = ["embed", "g.csv", "--features", "x.csv", "--labels", "y.csv", "--from", "old", "--probe.splits=2"]
    main([*warm, "-o", "warm"])
    notes = capsys.readouterr().err
    assert "rotated onto the earlier embedding of 190 nodes (50 are new, 0 are gone): mean cosine" in notes
    result = read_json(Path("warm/result.json"))
    assert result["config"]["train"]["epochs"] == 4  # of 8: a quarter, but never fewer than 4
    facts = result["facts"]["alignment"]
    assert facts["cosine"] > 0.8
    assert result["score"]["mean"] > 80
    main(["report", "warm"])
    assert f"mean cosine {facts['cosine']:.3f}" in Path("warm/report.html").read_text()
    main(["transform", "warm", "g.csv", "--features", "x.csv", "-o", "same"])
    assert largest_difference("warm", "same") < 1e-5
    main(["train", "warm/config.yaml", "--out", "again"])
    assert largest_difference("warm", "again") == 0
    main([*warm[:-1], "-o", "warm", "--resume"])
    assert largest_difference("warm", "again") == 0
    main([*warm, "-o", "mined", "--miner=progcl-weight"])
    config = read_json(Path("mined/result.json"))["config"]
    assert (config["method"]["objective"], config["loss"]["tau"]) == ("infonce", 0.3)
    assert config["miner"]["start_epoch"] == 2  # of 4 epochs
    error = refusal(capsys, "embed", "g.csv", "--from", "old", "-o", "bare")
    assert "--features FILE" in error
    assert not Path("bare").exists()
    error = refusal(capsys, *warm, "-o", "links", "--evaluate", "links")
    assert "may have seen links that are held out now" in error
    error = refusal(capsys, *warm, "-o", "wide", "--encoder.hidden=32")
    assert "weights of another method or encoder are no start" in error


def test_without_features_nothing_is_trained_again(grown_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["embed", "old.csv", "-o", "old", *QUICK])
    main(["embed", "g.csv", "-o", "warm", "--from", "old"])
    assert json.loads(Path("warm/result.json").read_text())["facts"]["alignment"]["nodes"] == 190
    assert Path("warm/log.jsonl").read_text() == ""
    error = refusal(capsys, "embed", "g.csv", "--features", "x.csv", "-o", "no", "--from", "old")
    assert "that of the earlier run had none" in error
