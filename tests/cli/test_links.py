"""links, neighbors and export as a user meets them."""

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from progcl import all_neighbors, score_pairs, top_links
from progcl.cli.main import main
from progcl.config import load_config, to_yaml
from progcl.data.formats import read_graph
from progcl.training.files import load_embeddings, save_embeddings, write_json
from support.commands import refusal
from support.graphs import USER_GRAPH, write_user_graph

NAMES = [f"n{node}" for node in range(240)]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run on a graph in a file, with the features as its embeddings."""
    monkeypatch.chdir(tmp_path)
    write_user_graph(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    files = {"data.graph": str(tmp_path / "g.csv"), "data.features_from": str(tmp_path / "x.csv")}
    config = load_config("embed", {**files, "data.labels_from": str(tmp_path / "y.csv")})
    (folder / "config.yaml").write_text(to_yaml(config, checksum=True))
    data = read_graph(**config.data.options())
    rows = {name: row for row, name in enumerate(data.ids)}
    save_embeddings(folder / "embeddings.npz", USER_GRAPH.x.numpy()[[int(name[1:]) for name in rows]], list(rows))
    write_json(folder / "result.json", {"links": None})
    return folder


def test_the_most_probable_missing_links(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["links", str(run), "--top", "5"])
    out, err = capsys.readouterr()
    head, *lines = (line.split("\t") for line in out.splitlines())
    assert head == ["source", "target", "score"]
    vectors, ids = load_embeddings(run / "embeddings.npz")
    pairs, scores = top_links(USER_GRAPH.x, USER_GRAPH.edge_index, 5)
    expected = {frozenset((f"n{a}", f"n{b}")) for a, b in pairs.T.tolist()}
    assert {frozenset(line[:2]) for line in lines} == expected
    assert [line[2] for line in lines] == [f"{score:.4f}" for score in scores]
    assert "--evaluate links" in err
    main(["links", str(run), "--top", "5", "-o", "top.npz"])
    with np.load("top.npz") as file:
        assert score_pairs(vectors, np.stack([file["source"], file["target"]])) == pytest.approx(file["score"])
        assert file["ids"].tolist() == ids


def test_given_pairs_are_scored_in_their_order(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = [f"{score:.4f}" for score in score_pairs(USER_GRAPH.x, np.array([[9, 3], [1, 4]]))]
    for text in ("n9,n1\nn3,n4\n", "source,target\nn9,n1\nn3,n4\n", "who,whom\nn9,n1\nn3,n4\n"):
        Path("pairs.csv").write_text(text)
        main(["links", str(run), "--pairs", "pairs.csv"])
        lines = capsys.readouterr().out.splitlines()[1:]
        assert lines == [f"n9\tn1\t{expected[0]}", f"n3\tn4\t{expected[1]}"]


def test_neighbors_of_all_nodes(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors, ids = load_embeddings(run / "embeddings.npz")
    nodes, cosines = all_neighbors(vectors, 3)
    expected = [(ids[node], ids[other]) for node, near in enumerate(nodes.tolist()) for other in near]
    main(["neighbors", str(run), "--all", "-k", "3", "-o", "deep/knn.parquet"])
    assert capsys.readouterr().out == "deep/knn.parquet\n"
    table = pyarrow.parquet.read_table("deep/knn.parquet")
    assert list(zip(table["node"].to_pylist(), table["neighbor"].to_pylist(), strict=True)) == expected
    np.testing.assert_array_equal(table["cosine"].to_numpy(), cosines.ravel())
    main(["neighbors", str(run), "--all", "-k", "3", "-o", "knn.csv"])
    with Path("knn.csv").open() as file:
        assert [(row["node"], row["neighbor"]) for row in csv.DictReader(file)] == expected
    main(["neighbors", str(run), "--all", "-k", "3", "-o", "knn.npz"])
    with np.load("knn.npz") as stored:
        assert np.array_equal(stored["neighbor"].reshape(240, 3), nodes)
    capsys.readouterr()
    main(["neighbors", str(run), "--all", "-k", "999"])
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + 240 * 239
    assert "every node has 239 others" in err


def test_clusters_of_an_export(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["export", str(run), "--format", "csv", "--clusters", "3"])
    out, err = capsys.readouterr()
    assert "3 clusters by k-means, silhouette 0." in err
    assert "NMI 0." in err
    with Path(out.strip()).open() as file:
        assert {row["cluster"] for row in csv.DictReader(file)} == {"0", "1", "2"}
    (run.parent / "g.csv").unlink()
    main(["export", str(run), "--format", "csv", "--clusters", "auto", "--force"])
    assert "not compared with labels: there is no file" in capsys.readouterr().err
    assert "there is no file" in refusal(capsys, "links", str(run))


BAD: dict[str, tuple[list[str], str]] = {
    "both": (["links", "run", "--top", "3", "--pairs", "p.csv"], "give one of both"),
    "none": (["links", "run", "--top", "0"], "at least 1"),
    "no run": (["links", "nowhere"], "holds no finished run"),
    "no file": (["links", "run", "--pairs", "p.csv"], "there is no file"),
    "empty": (["links", "run", "--pairs", "empty.csv"], "is empty"),
    "header": (["links", "run", "--pairs", "header.csv"], "names no pairs"),
    "unknown": (["links", "run", "--pairs", "unknown.csv"], "there is no node `n999` (and 1 other names)"),
    "format": (["links", "run", "-o", "x.xls"], "known: .csv, .npz, .parquet, .tsv"),
    "there": (["links", "run", "-o", "g.csv"], "is there already"),
    "one or all": (["neighbors", "run"], "name one node"),
    "one and all": (["neighbors", "run", "n3", "--all"], "name one node"),
    "one in a file": (["neighbors", "run", "n3", "-o", "x.csv"], "goes with --all"),
    "search": (["neighbors", "run", "--all", "--search", "fast"], "auto, exact or faiss"),
    "too few": (["neighbors", "run", "--all", "-k", "0"], "at least 1"),
    "clusters": (["export", "run", "--clusters", "some"], "needs auto or a number"),
    "too many": (["export", "run", "--clusters", "241"], "240 nodes cannot form 241 clusters"),
}


def test_bad_input_is_an_error_with_a_hint(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("source,target\n")
    Path("unknown.csv").write_text("n1,n999\nn998,n2\n")
    for name, (argv, message) in BAD.items():
        assert message in refusal(capsys, *argv), name
