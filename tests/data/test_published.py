"""Published data sets, from files in their raw formats: real ones where they are, small ones everywhere."""

import dataclasses
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.utils import is_undirected

from progcl import InputError
from progcl.data.datasets import PUBLISHED, Counts, counts, load_dataset
from progcl.data.published import FacebookPages, OgbnArxiv
from progcl.data.splits import heldout_split, make_splits
from support.shared import PLACES, copied


@pytest.mark.parametrize(("name", "content"), [("photo", b"half an npz"), ("wikics", b"<html>")])
def test_broken_raw_files(name: str, content: bytes, tmp_path: Path) -> None:
    entry = PUBLISHED[name]
    entry.raw_dir(tmp_path).mkdir(parents=True)
    (entry.raw_dir(tmp_path) / entry.raw[0]).write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        load_dataset(name, tmp_path)


LARGE = {"cs": 3, "physics": 8}  # seconds


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.large(seconds=LARGE[name])] if name in LARGE else []) for name in PLACES],
)
def test_published_data_has_its_published_counts(name: str, tmp_path: Path) -> None:
    data = load_dataset(name, copied(name, tmp_path), normalize=name not in LARGE)
    assert counts(data) == PUBLISHED[name].counts
    assert name in LARGE or data.x.sum(dim=1).max().item() == pytest.approx(1, abs=1e-5)


def small_npz(path: Path) -> None:
    """A graph of six nodes in the layout of the Amazon, Coauthor and CitationFull files."""
    path.parent.mkdir(parents=True)
    adjacency = scipy.sparse.csr_matrix(np.eye(6, k=1) + np.eye(6, k=-1))
    features = scipy.sparse.csr_matrix(np.eye(6))
    arrays = {
        f"{prefix}_{key}": getattr(matrix, key)
        for prefix, matrix in (("adj", adjacency), ("attr", features))
        for key in ("data", "indices", "indptr", "shape")
    }
    np.savez(path, labels=np.arange(6) % 2, **arrays)


def small_wikics(path: Path) -> None:
    path.parent.mkdir(parents=True)
    masks = [[bool((node + split) % 3 == 0) for node in range(6)] for split in range(20)]
    content = {
        "features": np.eye(6).tolist(),
        "labels": [0, 1] * 3,
        "links": [[1], [2], [3], [4], [5], []],
        "train_masks": masks,
        "val_masks": masks,
        "stopping_masks": masks,
        "test_mask": [False] * 5 + [True],
    }
    path.write_text(json.dumps(content))


def small_planetoid(path: Path, n: int = 530) -> None:
    """A path of 530 nodes: PyG takes 500 of them for validation."""
    path.parent.mkdir(parents=True)
    name = path.name.split(".")[1]
    x = scipy.sparse.csr_matrix(np.eye(6)[np.arange(n) % 6])
    onehot = np.eye(2)[np.arange(n) % 2]
    files = {
        "x": x[:9],
        "tx": x[-2:],
        "allx": x[:-2],
        "y": onehot[:9],
        "ty": onehot[-2:],
        "ally": onehot[:-2],
    }
    for key, value in {**files, "graph": {i: [j for j in (i - 1, i + 1) if 0 <= j < n] for i in range(n)}}.items():
        (path.parent / f"ind.{name}.{key}").write_bytes(pickle.dumps(value))
    (path.parent / f"ind.{name}.test.index").write_text(f"{n - 2}\n{n - 1}\n")


def small_flickr(path: Path) -> None:
    path.parent.mkdir(parents=True)
    adjacency = scipy.sparse.csr_matrix(np.eye(6, k=1) + np.eye(6, k=-1))
    np.savez(path, **{key: getattr(adjacency, key) for key in ("data", "indices", "indptr", "shape")})
    np.save(path.parent / "feats.npy", np.eye(6))
    (path.parent / "class_map.json").write_text(json.dumps({str(node): node % 2 for node in range(6)}))
    (path.parent / "role.json").write_text(json.dumps({"tr": [0, 2, 3], "va": [1], "te": [4, 5]}))


def small_reddit(path: Path) -> None:
    path.parent.mkdir(parents=True)
    node_types = np.array([1, 2, 1, 1, 3, 3])
    np.savez(path, feature=np.eye(6), label=np.arange(6) % 2, node_types=node_types)
    adjacency = scipy.sparse.coo_matrix(np.eye(6, k=1) + np.eye(6, k=-1))
    scipy.sparse.save_npz(path.parent / "reddit_graph.npz", adjacency)


def small_arxiv(path: Path) -> None:
    """Every edge in one direction, as OGB has citations."""
    folder = path.parents[1]

    def write(name: str, rows: Any, number_format: str) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(folder / f"{name}.csv.gz", rows, number_format, delimiter=",")

    write("raw/edge", [[node, node + 1] for node in range(5)], "%d")
    write("raw/node-feat", np.eye(6), "%.6f")
    write("raw/node-label", np.arange(6) % 2, "%d")
    for name, nodes in {"train": [0, 2, 3], "valid": [1], "test": [4, 5]}.items():
        write(f"split/time/{name}", nodes, "%d")


WRITERS = {
    "flickr": small_flickr,
    "reddit": small_reddit,
    "ogbn-arxiv": small_arxiv,
    "wikics": small_wikics,
    "cora": small_planetoid,
    "citeseer": small_planetoid,
    "pubmed": small_planetoid,
}


@pytest.mark.parametrize("name", [name for name in PUBLISHED if not name.startswith("cifar10")])
def test_every_raw_format_is_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every loader reads its raw format from the folder that the error message names, and downloads nothing."""
    entry = PUBLISHED[name]
    WRITERS.get(name, small_npz)(entry.raw_dir(tmp_path) / entry.raw[0])
    small = Counts(530, 529, 6, 2) if WRITERS.get(name) is small_planetoid else Counts(6, 5, 6, 2)
    with pytest.raises(InputError, match=f"has {small}, published are"):
        load_dataset(name, tmp_path)
    monkeypatch.setitem(PUBLISHED, name, dataclasses.replace(entry, counts=small))
    data = load_dataset(name, tmp_path)
    assert is_undirected(data.edge_index)
    if name in ("flickr", "reddit", "ogbn-arxiv"):
        assert [nodes.tolist() for nodes in heldout_split(data)] == [[0, 2, 3], [1], [4, 5]]
        (split,) = make_splits(data, 20, nodes="heldout")
        assert list(split.test) == [4, 5]
    if name == "wikics":
        splits = make_splits(data, 20)
        assert len(splits) == 20
        assert list(splits[1].train) == [2, 5]
        assert list(splits[1].test) == [5]


def test_facebook_is_made_of_snaps_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "facebook_large.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("facebook_large/musae_facebook_edges.csv", "id_1,id_2\n0,1\n1,2\n2,3\n3,3\n")
        file.writestr("facebook_large/musae_facebook_features.json", '{"0": [3, 1], "1": [], "3": [0], "2": [2, 2]}')
        rows = ["0,17,A page,politician", '1,5,"One, two",company', "3,8,Last,tvshow", "2,9,Third,company"]
        file.writestr(
            "facebook_large/musae_facebook_target.csv", "\n".join(["id,facebook_id,page_name,page_type", *rows])
        )
    monkeypatch.setattr(FacebookPages, "url", archive.as_uri())
    monkeypatch.setitem(PUBLISHED, "facebook", dataclasses.replace(PUBLISHED["facebook"], counts=Counts(4, 3, 4, 3)))
    data = load_dataset("facebook", tmp_path / "root", normalize=False)
    assert data.y.tolist() == [1, 0, 0, 2]
    assert data.x.tolist() == [[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]]
    assert is_undirected(data.edge_index)
    archive.unlink()  # the second time, nothing is fetched
    assert torch.equal(load_dataset("facebook", tmp_path / "root", normalize=False).x, data.x)


def test_ogbs_archive_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_arxiv(tmp_path / "arxiv" / "raw" / "edge.csv.gz")
    with zipfile.ZipFile(tmp_path / "arxiv.zip", "w") as file:
        for path in (tmp_path / "arxiv").rglob("*.gz"):
            file.write(path, path.relative_to(tmp_path))
    monkeypatch.setattr(OgbnArxiv, "url", (tmp_path / "arxiv.zip").as_uri())
    entry = dataclasses.replace(PUBLISHED["ogbn-arxiv"], counts=Counts(6, 5, 6, 2))
    monkeypatch.setitem(PUBLISHED, "ogbn-arxiv", entry)
    assert load_dataset("ogbn-arxiv", tmp_path / "root").num_nodes == 6
