"""Exported embeddings can be read back, and nothing is overwritten without --force."""

import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from progcl import InputError
from progcl.cli.main import main
from progcl.export import FORMATS, export, nearest
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
