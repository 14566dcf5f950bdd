"""`progcl embed` as a user meets it: good files, odd ones and bad ones."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from progcl import ProGCL
from progcl import run as run_module
from progcl.cli.main import main
from progcl.training.files import load_embeddings
from support.commands import refusal
from support.graphs import USER_GRAPH

pytestmark = pytest.mark.filterwarnings("ignore:no mixture fitted", "ignore:no mining")
QUICK = ["--train.epochs=4", "--encoder.hidden=16", "--probe.splits=2"]


def arrays(**changes: Any) -> Callable[[], object]:
    content = {"edge_index": USER_GRAPH.edge_index.numpy(), "x": USER_GRAPH.x.numpy(), **changes}
    return lambda: np.savez("bad.npz", **{name: value for name, value in content.items() if value is not None})


def features_with(value: float) -> Any:
    rows = USER_GRAPH.x.numpy().copy()
    rows[3, 2] = value
    return rows


BAD: dict[str, tuple[Callable[[], object], list[str], str]] = {
    "missing": (lambda: None, ["nowhere.csv"], "there is no file"),
    "format": (lambda: Path("bad.xls").write_text("?"), ["bad.xls"], "unknown file extension"),
    "truncated": (lambda: Path("bad.npz").write_bytes(Path("g.npz").read_bytes()[:900]), ["bad.npz"], "cannot be read"),
    "objects": (arrays(x=np.array([[object()]])), ["bad.npz"], "objects are never loaded"),
    "pickle": (lambda: Path("bad.pt").write_bytes(b"\x80\x02cos\nsystem\n."), ["bad.pt"], "objects are never loaded"),
    "beyond": (arrays(edge_index=np.array([[0, 999], [1, 2]])), ["bad.npz"], "node `999`, which does not exist"),
    "negative": (arrays(edge_index=np.array([[0, -1], [1, 2]])), ["bad.npz"], "not negative"),
    "inf": (arrays(x=features_with(np.inf)), ["bad.npz"], "row 3 holds inf in column 3"),
    "mistake": (
        lambda: Path("bad.csv").write_text(Path("x.csv").read_text().replace("n7,", "n7,much", 1)),
        ["g.csv", "--features", "bad.csv"],
        "line 8 holds `much",
    ),
    "weight": (arrays(edge_weight=-np.ones(USER_GRAPH.num_edges)), ["bad.npz"], "a weight is negative"),
    "weight's column": (lambda: None, ["g.csv", "--weight", "cost"], "no column `cost`, which --weight names"),
    "column": (lambda: None, ["g.csv", "--source", "sorce", "--target", "target"], "did you mean `source`"),
    "rows": (
        lambda: np.save("bad.npy", USER_GRAPH.x[:100]),
        ["g.npz", "--features", "bad.npy"],
        "100 rows of features",
    ),
    "no edges": (arrays(edge_index=np.zeros((2, 0), int)), ["bad.npz"], "no edges"),
    "one node": (arrays(edge_index=np.array([[0], [0]]), x=np.ones((1, 3))), ["bad.npz"], "at least 2 nodes"),
    "labels": (arrays(y=np.zeros(7)), ["bad.npz"], "7 labels for 240 nodes"),
    "labels beside": (lambda: np.save("bad.npy", np.zeros(7)), ["g.npz", "--labels", "bad.npy"], "7 rows of labels"),
    "budget": (lambda: None, ["g.npz", "--budget", "soon"], "is not a duration"),
    "typo": (lambda: None, ["g.npz", "--featurs", "x.csv"], "unknown option"),
}


def test_names_come_back_and_the_run_can_be_repeated(
    user_graph: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["embed", "g.csv", "--features", "x.csv", "--labels", "y.csv", "-o", "out", *QUICK])
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == "out/embeddings.npz"
    assert "features of up to 8 hops (no training)" in err
    assert "the embedding without its learned part (no training)" in err
    assert "240 nodes" in err
    report = Path("out/report.html").read_text()
    for text in ("n17", "kind 2", "240 nodes", "used in both", "Map of the embeddings"):
        assert text in report
    vectors, ids = load_embeddings(Path("out/embeddings.npz"))
    assert ids == [f"n{node}" for node in range(240)]
    table = pyarrow.parquet.read_table("out/embeddings.parquet")
    assert table["node"].to_pylist() == ids
    np.testing.assert_array_equal(np.array(table["embedding"].to_pylist(), np.float32), vectors)
    Path("elsewhere").mkdir()
    with monkeypatch.context() as patch:
        patch.chdir("elsewhere")
        main(["train", "../out/config.yaml", "--out", "../again"])
    np.testing.assert_array_equal(load_embeddings(Path("again/embeddings.npz")).vectors, vectors)
    main(["report", "out", "--out", "again.html"])
    assert Path("again.html").read_text() == report


def test_commands_on_the_run_know_names_and_labels(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["embed", "g.csv", "--features", "x.csv", "--labels", "y.csv", "-o", "out", *QUICK])
    capsys.readouterr()
    main(["neighbors", "out", "n7"])
    head, *rows = capsys.readouterr().out.splitlines()
    names = [row.split("\t")[0] for row in rows]
    assert head == "node\tcosine"
    assert len(set(names) & {f"n{node}" for node in range(240)} - {"n7"}) == 10
    main(["eval", "out", "--protocol", "bgrl", "--splits", "1"])
    assert "1 splits, protocol `bgrl`" in capsys.readouterr().out


def test_labels_with_gaps_in_a_column_of_a_table(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path("y.csv").read_text().splitlines()[1:]
    rows = [f"{30 + number},{line if number % 5 else line.split(',')[0] + ','}" for number, line in enumerate(lines)]
    Path("people.csv").write_text("\n".join(["age,user,kind", *rows, "40,stranger,kind 0"]) + "\n")
    Path("edges.csv").write_text(Path("g.csv").read_text().replace("source,target", "who,whom"))
    columns = ["--source=who", "--target=whom", "--id-column=user", "--label-column=kind"]
    main(["embed", "edges.csv", "--features", "x.csv", "--labels", "people.csv", *columns, "-o", "out", *QUICK])
    err = capsys.readouterr().err
    assert "240 nodes, " in err
    for text in ("1 rows of labels name no node", "48 of 240 nodes have no label", "192 nodes with labels", "macro-F1"):
        assert text in err
    assert "always the largest class" in err
    report = Path("out/report.html").read_text()
    for text in ("always the largest class", "macro-F1", "no label", "192 nodes have labels"):
        assert text in report
    main(["eval", "out", "--splits", "2"])
    assert "192 nodes with labels" in capsys.readouterr().out


def test_an_embedding_is_read_back_as_features(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["embed", "g.csv", "-o", "first", *QUICK])
    for name in ("embeddings.npz", "embeddings.parquet"):
        main(["embed", "g.csv", "--features", f"first/{name}", "-o", name, *QUICK])
    one, other = (
        load_embeddings(Path(name, "embeddings.npz")).vectors for name in ("embeddings.npz", "embeddings.parquet")
    )
    np.testing.assert_array_equal(one, other)


def test_a_graph_without_features_and_labels_is_embedded(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["embed", "g.csv", *QUICK])
    errors = capsys.readouterr().err
    assert "no features given: 241 computed from the edges" in errors
    assert "241 features: no training\n" in errors
    assert "nothing is trained: there are no features to learn from" in errors
    assert json.loads(Path("runs/g/result.json").read_text())["score"] is None
    main(["embed", "g.csv", *QUICK])  # nothing is overwritten
    assert {path.name for path in Path("runs").iterdir()} == {"g", "g-2"}


def test_a_run_that_is_stopped_while_it_reads_leaves_no_folder(
    user_graph: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("progcl.embed.load_graph", stop)
    with pytest.raises(SystemExit, match="130"):
        main(["embed", "g.csv", "--features", "x.csv", "-o", "early"])
    assert "to continue" not in capsys.readouterr().err
    assert not Path("early").exists()


def test_a_stopped_run_says_how_to_continue_and_ends_alike(
    user_graph: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save = run_module._save

    def save_and_stop(trainer: Any, record: Any, *places: Any) -> None:
        save(trainer, record, *places)
        if record.epoch == 3:
            raise KeyboardInterrupt

    options = ["--features", "x.csv", *QUICK, "--train.checkpoint_every=1"]
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "_save", save_and_stop)
        with pytest.raises(SystemExit, match="130"):
            main(["embed", "g.csv", "--out", "out", *options])
    assert "to continue: progcl embed g.csv --out out --resume" in capsys.readouterr().err
    assert "was not made of" in refusal(capsys, "embed", "g.npz", "--out", "out", "--resume")
    main(["embed", "g.csv", "--out", "out", "--resume"])
    main(["embed", "g.csv", "--out", "whole", *options])
    whole, resumed = (load_embeddings(Path(name, "embeddings.npz")).vectors for name in ("whole", "out"))
    np.testing.assert_array_equal(resumed, whole)


def test_bad_input_is_an_error_with_a_hint_and_leaves_no_folder(
    user_graph: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, (write, arguments, message) in BAD.items():
        write()
        error = refusal(capsys, "embed", *arguments, "-o", "out")
        assert message in error, name
        assert "\n\nhint: " in error, name
        assert not Path("out").exists(), name


def test_an_output_is_overwritten_only_by_force(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["embed", "g.npz", "-o", "out", *QUICK, "--probe.protocol=none"]
    main(options)
    before = Path("out/result.json").read_text()
    assert "--force" in refusal(capsys, *options)
    assert Path("out/result.json").read_text() == before
    main([*options, "--force", "--train.seed=1"])
    assert json.loads(Path("out/result.json").read_text())["seed"] == 1


def test_no_room_on_the_disk(
    user_graph: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("progcl.embed.shutil.disk_usage", lambda folder: SimpleNamespace(free=1_000_000))
    assert "1 MB are free" in refusal(capsys, "embed", "g.npz", "-o", "out")
    assert not Path("out").exists()


def test_irregular_graphs_are_embedded_with_remarks(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = [[0, 0, 1, 1, 2, 3, 4, 5], [1, 1, 2, 0, 0, 3, 5, 4]]
    np.savez("odd.npz", edge_index=np.array(edges), x=np.ones((8, 3)))
    main(["embed", "odd.npz", "-o", "out", *QUICK])
    remarks = capsys.readouterr().err
    loops, directions = ("self-loop", "duplicate edge"), ("both directions", "isolated", "connected components")
    for remark in (*loops, *directions, "the same for all nodes"):
        assert remark in remarks
    vectors = load_embeddings(Path("out/embeddings.npz")).vectors
    assert "0 edges to judge by are too few" in remarks
    assert vectors.shape == (8, 5 * 3 + 8)  # five hops, walk vectors
    assert np.isfinite(vectors).all()


def test_weights_and_directions_are_used_where_they_are_asked_for(
    user_graph: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [pair for pair in USER_GRAPH.edge_index.T.tolist() if pair[0] < pair[1]]
    rows = [f"n{a},n{b},{1 + (a + b) % 7}" for a, b in pairs]
    Path("w.csv").write_text("source,target,calls\n" + "\n".join(rows) + "\n")
    options = ["--features", "x.csv", "--output.blocks", "untrained", "--output.structure", "0", "--hops.dim", "null"]
    vectors, notes = {}, {}
    for name, flags in {"plain": [], "weighted": ["--weight", "calls"], "directed": ["--directed"]}.items():
        main(["embed", "w.csv", *options, *flags, "-o", name])
        vectors[name], notes[name] = load_embeddings(Path(name) / "embeddings.npz")[0], capsys.readouterr().err
    assert "the column `calls` is not used: --weight calls" in notes["plain"]
    assert "edges have weights from 1 to 7" in notes["weighted"]
    assert "along the edges and against them" in notes["directed"]
    assert vectors["plain"].shape == vectors["weighted"].shape == (240, 5 * 6)
    assert vectors["directed"].shape == (240, 13 * 6)
    assert not np.array_equal(vectors["plain"], vectors["weighted"])
    model = ProGCL(weight="calls", directed=True, random_state=0, options={"output.blocks": "untrained"})
    assert model.fit_transform("w.csv").shape[0] == 240
    assert any("against them" in remark for remark in model.remarks_)
    undirected = ProGCL(directed=True, random_state=0, options={"output.blocks": "untrained"}).fit(USER_GRAPH)
    assert any("changes nothing" in remark for remark in undirected.remarks_)


def test_links_are_held_out_and_clusters_are_a_column(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["embed", "g.csv", "--features", "x.csv", "--labels", "y.csv", "-o", "out", *QUICK, "--evaluate", "links",
          "--clusters", "3"])  # fmt: skip
    err = capsys.readouterr().err
    result = json.loads(Path("out/result.json").read_text())
    edges, links = USER_GRAPH.edge_index.size(1) // 2, result["links"]
    assert result["config"]["data"]["holdout"] == 0.1
    assert links["links"] == round(0.1 * edges)
    assert f"{links['links']} links that were kept from everything\n" in err
    assert f"{links['auc']:.4f}  {links['mrr']:.4f}\n" in err
    assert "3 clusters by k-means, silhouette" in err
    assert set(pyarrow.parquet.read_table("out/embeddings.parquet")["cluster"].to_pylist()) == {0, 1, 2}
    report = Path("out/report.html").read_text()
    for text in ("Links that were held out", "link AUC", "3 clusters by k-means", f"{links['mrr']:.4f}"):
        assert text in report
    before = Path("out/embeddings.npz").read_bytes()
    main(["links", "out", "--top", "2"])
    assert f"of {links['links']} links that were kept from this run: AUC {links['auc']:.4f}" in capsys.readouterr().err
    main(["embed", "g.csv", "--features", "x.csv", "--labels", "y.csv", "--out", "out", "--resume"])
    assert Path("out/embeddings.npz").read_bytes() == before
    assert json.loads(Path("out/result.json").read_text())["links"] == links
