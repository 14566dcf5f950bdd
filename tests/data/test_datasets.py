import dataclasses
import json
import pickle
import socket
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data
from torch_geometric.utils import contains_self_loops, is_undirected

from progcl import InputError
from progcl.data import datasets as module
from progcl.data.datasets import PUBLISHED, Counts, counts, load_dataset, roots
from progcl.data.prepare import checked
from progcl.data.published import FacebookPages, OgbnArxiv
from progcl.data.splits import held_out, make_splits
from progcl.data.synthetic import csbm
from progcl.graph.sparse import scaled_rows
from support.shared import PLACES, copied


def test_digits() -> None:
    data = load_dataset("digits")
    found = counts(data)
    assert (found.nodes, found.features, found.classes) == (1797, 64, 10)
    assert is_undirected(data.edge_index)
    assert torch.bincount(data.edge_index[0]).min() >= 10
    torch.testing.assert_close(data.x.sum(dim=1), torch.ones(1797))
    assert load_dataset("digits", normalize=False).x.max() == 1
    assert counts(load_dataset("digits", neighbors=4)).edges < found.edges


@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.9])
def test_csbm_has_the_asked_degree_homophily_and_signal(homophily: float) -> None:
    data = csbm(nodes=5000, classes=4, degree=12, homophily=homophily, features=8, signal=3.0, seed=1)
    source, target = data.edge_index
    assert not contains_self_loops(data.edge_index)
    assert is_undirected(data.edge_index)
    assert len(source) / 5000 == pytest.approx(12, rel=0.03)
    assert (data.y[source] == data.y[target]).float().mean().item() == pytest.approx(homophily, abs=0.02)
    means = torch.stack([data.x[data.y == label].mean(dim=0) for label in range(4)])
    assert means.norm(dim=1).tolist() == pytest.approx([3.0] * 4, rel=0.1)


def test_csbm_repeats_with_its_seed() -> None:
    first, again, other = (csbm(nodes=50, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.edge_index, again.edge_index)
    assert torch.equal(first.x, again.x)
    assert not torch.equal(first.x, other.x)


def test_csbm_of_uneven_classes_reaches_every_node() -> None:
    data = csbm(nodes=11, classes=4, degree=10, homophily=0.5, seed=0)
    assert set(data.edge_index.flatten().tolist()) == set(range(11))


@pytest.mark.parametrize(
    "options",
    [{"homophily": 1.5}, {"classes": 1}, {"nodes": 3}, {"degree": -1}, {"features": 0}, {"signal": -1}],
)
def test_csbm_refuses_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        csbm(**options)


def test_unknown_names_and_options() -> None:
    with pytest.raises(InputError, match="did you mean `photo`"):
        load_dataset("foto")
    with pytest.raises(InputError, match="no option `nodes`"):
        load_dataset("digits", nodes=5)
    with pytest.raises(InputError, match="has no options"):
        load_dataset("photo", nodes=5)


@pytest.mark.parametrize("name", PLACES)
def test_published_data_has_its_published_counts(name: str, tmp_path: Path) -> None:
    data = load_dataset(name, copied(name, tmp_path))
    assert counts(data) == PUBLISHED[name].counts
    assert data.x.sum(dim=1).max().item() == pytest.approx(1, abs=1e-5)


def test_absent_and_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_unreachable", lambda url: "no network")
    with pytest.raises(InputError, match="not here and cannot be downloaded") as error:
        load_dataset("photo", tmp_path)
    assert "amazon_electronics_photo.npz" in error.value.hint
    assert str(tmp_path / "amazon" / "Photo" / "raw") in error.value.hint


def test_signed_features_are_scaled_not_shifted(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled, plain = (load_dataset("csbm", normalize=normalize).x for normalize in (True, False))
    torch.testing.assert_close(scaled.abs().sum(dim=1), torch.ones(2000))
    assert torch.equal(scaled.sign(), plain.sign())


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert module._unreachable(f"http://127.0.0.1:{silent.getsockname()[1]}/")


def test_a_million_nodes() -> None:
    assert counts(csbm(nodes=1_000_000, degree=4, features=2)).nodes == 1_000_000


@pytest.mark.parametrize(("name", "content"), [("photo", b"half an npz"), ("wikics", b"<html>")])
def test_broken_raw_files(name: str, content: bytes, tmp_path: Path) -> None:
    entry = PUBLISHED[name]
    entry.raw_dir(tmp_path).mkdir(parents=True)
    (entry.raw_dir(tmp_path) / entry.raw[0]).write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        load_dataset(name, tmp_path)


def test_an_address_that_does_not_answer_is_reported() -> None:
    assert module._unreachable("http://127.0.0.1:9/")


def test_places_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROGCL_DATA", "/somewhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert roots("/here") == [Path("/here"), Path("/somewhere"), tmp_path / "progcl"]


def small_npz(path: Path) -> None:
    """A graph of six nodes in the layout of the Amazon, Coauthor and CitationFull files."""
    path.parent.mkdir(parents=True)
    adjacency = scipy.sparse.csr_matrix(np.eye(6, k=1) + np.eye(6, k=-1))
    features = scipy.sparse.csr_matrix(np.eye(6))
    parts = {
        f"{prefix}_{key}": getattr(matrix, key)
        for prefix, matrix in (("adj", adjacency), ("attr", features))
        for key in ("data", "indices", "indptr", "shape")
    }
    np.savez(path, labels=np.arange(6) % 2, **parts)


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
    parts = {
        "x": x[:9],
        "tx": x[-2:],
        "allx": x[:-2],
        "y": onehot[:9],
        "ty": onehot[-2:],
        "ally": onehot[:-2],
    }
    for key, value in {**parts, "graph": {i: [j for j in (i - 1, i + 1) if 0 <= j < n] for i in range(n)}}.items():
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
    kinds = np.array([1, 2, 1, 1, 3, 3])
    np.savez(path, feature=np.eye(6), label=np.arange(6) % 2, node_types=kinds)
    adjacency = scipy.sparse.coo_matrix(np.eye(6, k=1) + np.eye(6, k=-1))
    scipy.sparse.save_npz(path.parent / "reddit_graph.npz", adjacency)


def small_arxiv(path: Path) -> None:
    """Every edge in one direction alone, as OGB has citations."""
    folder = path.parents[1]

    def write(name: str, rows: Any, form: str) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(folder / f"{name}.csv.gz", rows, form, delimiter=",")

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


@pytest.mark.parametrize("name", PUBLISHED)
def test_small_files_in_the_raw_formats(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert [part.tolist() for part in held_out(data)] == [[0, 2, 3], [1], [4, 5]]
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


def test_a_split_of_ones_own_or_always_the_same() -> None:
    data = csbm(nodes=50)
    parts = held_out(data)
    assert [len(part) for part in parts] == [30, 10, 10]
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(50))
    assert all(torch.equal(a, b) for a, b in zip(parts, held_out(csbm(nodes=50, seed=1)), strict=True))


def test_a_part_of_a_split_is_refused() -> None:
    data = csbm(nodes=50)
    data.train_mask = torch.arange(50) < 20
    with pytest.raises(InputError, match="only a part of one"):
        held_out(data)


def test_mapped_features_are_written_once_and_recognized(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.npy"
    first = load_dataset("csbm", mapped=str(path), nodes=100)
    content = path.read_bytes()
    again = load_dataset("csbm", mapped=str(path), nodes=100)
    assert torch.equal(first.x, again.x)
    assert path.read_bytes() == content
    plain = load_dataset("csbm", nodes=100)
    torch.testing.assert_close(scaled_rows(first), plain.x)
    assert torch.equal(first.edge_index, plain.edge_index)
    for nodes, degree in ((101, 10), (100, 4)):
        with pytest.raises(InputError, match="other features"):
            load_dataset("csbm", mapped=str(path), nodes=nodes, degree=degree)
    assert {file.name for file in path.parent.iterdir()} == {"x.npy", "x.npy.json"}


def test_a_users_mapped_features(tmp_path: Path) -> None:
    data = csbm(nodes=60)
    np.save(tmp_path / "x.npy", data.x.numpy())
    for mode in ("r", "c"):
        mapped = checked(Data(x=np.load(tmp_path / "x.npy", mmap_mode=mode)[:50], edge_index=data.edge_index[:, :0]))
        assert mapped.mapped
        assert torch.equal(mapped.x, data.x[:50])
    np.save(tmp_path / "x.npy", data.x.double().numpy())
    with pytest.raises(InputError, match="float32"):
        checked(Data(x=np.load(tmp_path / "x.npy", mmap_mode="r"), edge_index=data.edge_index))
