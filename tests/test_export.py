"""Exported embeddings can be read back, and nothing is overwritten without --force."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from progcl import InputError
from progcl.cli.main import main
from progcl.clusters import Clusters
from progcl.export import FORMATS, export, nearest, save_clusters
from progcl.training.files import load_embeddings, save_embeddings, write_json

VECTORS = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    save_embeddings(folder / "embeddings.npz", VECTORS)
    write_json(folder / "result.json", {})
    return folder


def test_neighbors_are_those_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("progcl.export.CHUNK_ROWS", 7)
    unit = [row / np.linalg.norm(row) for row in VECTORS.astype(float)]
    expected = sorted(((float(unit[3] @ other), node) for node, other in enumerate(unit) if node != 3), reverse=True)
    found = nearest(VECTORS, 3, 5)
    assert [node for node, _ in found] == [node for _, node in expected[:5]]
    assert [cosine for _, cosine in found] == pytest.approx([cosine for cosine, _ in expected[:5]])
    assert len(nearest(VECTORS, 0, 100)) == 29
    assert nearest(np.zeros((2, 3), np.float32), 0) == [(1, 0.0)]
    for node in (-1, 30):
        with pytest.raises(InputError, match="from 0 to 29"):
            nearest(VECTORS, node)


def test_npz_and_word2vec_come_back(run: Path) -> None:
    assert np.array_equal(load_embeddings(export(run, "npz")).vectors, VECTORS)
    header, *lines = export(run, "word2vec").read_text().splitlines()
    assert header == "30 4"
    names, rows = zip(*(line.split(" ", 1) for line in lines), strict=True)
    assert list(names) == [str(node) for node in range(30)]
    np.testing.assert_allclose([[float(value) for value in row.split()] for row in rows], VECTORS, rtol=1e-6)


def test_parquet_comes_back(run: Path) -> None:
    table = pyarrow.parquet.read_table(export(run, "parquet"))
    assert table["node"].to_pylist() == [str(node) for node in range(30)]
    np.testing.assert_array_equal(np.array(table["embedding"].to_pylist(), np.float32), VECTORS)


def test_parquet_without_pyarrow_says_what_to_install(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="needs pyarrow"):
        export(run, "parquet")
    assert not run.with_name("run.parquet").exists()


def test_csv_comes_back_with_quoted_names(run: Path) -> None:
    names = ['a, "b"', *(f"n{node}" for node in range(1, 30))]
    save_embeddings(run / "embeddings.npz", VECTORS, names)
    path = export(run, "csv")
    assert path.name == "run-embeddings.csv"
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["node", "e0", "e1", "e2", "e3"]
    assert [row[0] for row in rows] == names
    np.testing.assert_allclose([[float(value) for value in row[1:]] for row in rows], VECTORS, rtol=1e-6)


def test_an_index_of_faiss_finds_the_neighbors(run: Path) -> None:
    faiss = pytest.importorskip("faiss", reason="the optional package faiss is not installed")
    folder = export(run, "faiss")
    index, names = faiss.read_index(str(folder / "index.faiss")), json.loads((folder / "nodes.json").read_text())
    assert names == [str(node) for node in range(30)]
    cosines, found = index.search(index.reconstruct_n(3, 1), 6)
    assert found[0].tolist() == [3, *(node for node, _ in nearest(VECTORS, 3, 5))]
    assert cosines[0, 1:] == pytest.approx([cosine for _, cosine in nearest(VECTORS, 3, 5)], abs=1e-5)


def test_faiss_where_it_is_not_installed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InputError, match="faiss is not installed") as error:
        export(run, "faiss")
    assert "progcl[faiss]" in error.value.hint
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_clusters_are_a_column_where_there_is_a_place_for_it(run: Path) -> None:
    own, other = Clusters(np.arange(30) % 3, 0.5), Clusters(np.arange(30) % 2, 0.5)
    save_clusters(run, own, {"NMI": 0.5, "ARI": 0.4})
    assert pyarrow.parquet.read_table(export(run, "parquet"))["cluster"].to_pylist() == own.of.tolist()
    with np.load(export(run, "npz")) as file:
        assert np.array_equal(file["clusters"], own.of)
    assert np.array_equal(load_embeddings(run.with_name("run.npz")).vectors, VECTORS)
    lines = export(run, "csv", clusters=other).read_text().splitlines()
    assert [line.split(",")[1] for line in lines] == ["cluster", *map(str, other.of)]
    table = (export(run, "tensorboard") / "metadata.tsv").read_text().splitlines()
    assert table[:3] == ["node\tcluster", "0\t0", "1\t1"]
    assert export(run, "word2vec").exists()  # the run's own are left out
    with pytest.raises(InputError, match="no place for clusters"):
        export(run, "word2vec", clusters=own)


def test_tensorboards_projector_folder(run: Path) -> None:
    folder = export(run, "tensorboard")
    np.testing.assert_allclose(np.loadtxt(folder / "vectors.tsv", delimiter="\t"), VECTORS, rtol=1e-6)
    assert (folder / "metadata.tsv").read_text().splitlines() == [str(node) for node in range(30)]
    assert 'tensor_path: "vectors.tsv"' in (folder / "projector_config.pbtxt").read_text()


def test_node_names_are_exported(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"page {node}" for node in range(30)]
    save_embeddings(run / "embeddings.npz", VECTORS, names)
    assert load_embeddings(export(run, "npz")).ids == names
    assert pyarrow.parquet.read_table(export(run, "parquet"))["node"].to_pylist() == names
    assert export(run, "word2vec").read_text().splitlines()[8].startswith("page_7 ")
    assert (export(run, "tensorboard") / "metadata.tsv").read_text().splitlines() == names
    main(["neighbors", str(run), "page 3", "--number", "1"])
    neighbor, _ = nearest(VECTORS, 3, 1)[0]
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"page {neighbor}\t")
    with pytest.raises(SystemExit):
        main(["neighbors", str(run), "page3"])
    assert "did you mean `page 3`?" in capsys.readouterr().err


@pytest.mark.parametrize("kind", FORMATS)
def test_nothing_is_overwritten_without_force(kind: str, run: Path) -> None:
    if kind == "faiss":
        pytest.importorskip("faiss", reason="the optional package faiss is not installed")
    first = export(run, kind)
    with pytest.raises(InputError, match="is there already"):
        export(run, kind)
    assert export(run, kind, force=True) == first
    (run.parent / "mine").mkdir()
    (run.parent / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(InputError, match="other files"):
        export(run, kind, run.parent / "mine", force=True)
    with pytest.raises(InputError, match="run itself"):
        export(run, kind, run, force=True)
    assert (run.parent / "mine" / "thesis.txt").exists()


def test_the_command_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["neighbors", str(run), "3", "--number", "2"])
    rows = [f"{node}\t{cosine:.4f}" for node, cosine in nearest(VECTORS, 3, 2)]
    assert capsys.readouterr().out.splitlines() == ["node\tcosine", *rows]
    path = run.parent / "deep" / "x.vec"
    main(["export", str(run), "--format", "word2vec", "--out", str(path)])
    assert capsys.readouterr().out == f"{path}\n"
    assert path.read_text() == export(run, "word2vec").read_text()
    for bad in (["neighbors", "nowhere", "3"], ["neighbors", str(run), "77"], ["export", str(run), "--format", "xls"]):
        with pytest.raises(SystemExit) as stopped:
            main(bad)
        assert stopped.value.code == 2


def test_names_that_word2vec_could_not_tell_apart_are_refused(run: Path) -> None:
    save_embeddings(run / "embeddings.npz", VECTORS[:3], ["a b", "a_b", "c"])
    with pytest.raises(InputError, match="1 names belong to another node"):
        export(run, "word2vec")
    assert list(run.glob("*.vec")) == []
