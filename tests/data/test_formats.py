"""Every format gives the same graph, nodes keep their names, and a file that cannot be read is one line of error."""

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import scipy.io
import scipy.sparse
import torch
from safetensors.numpy import save_file
from torch_geometric.data import Data

from progcl import InputError
from progcl.data.formats import GRAPH_READERS, GZIP_FORMATS, TABLE_FILES, TABLE_READERS, read_graph
from support.graphs import EDGES, NAMES, PAIRS, X, Y, adjacency, csr, pairs


def npz(path: Path) -> None:
    np.savez(path, edge_index=EDGES, x=X, y=Y)


def npz_csr(path: Path) -> None:
    np.savez(path, **csr("adj", adjacency()), **csr("attr", scipy.sparse.csr_matrix(X)), labels=Y)


def npz_dense_features(path: Path) -> None:
    np.savez(path, **csr("adj", adjacency()), attr_matrix=X, labels=Y)


def safetensors(path: Path) -> None:
    save_file({"edge_index": EDGES, "x": X, "y": Y}, path)


def pt_data(path: Path) -> None:
    torch.save(Data(x=torch.tensor(X), edge_index=torch.tensor(EDGES), y=torch.tensor(Y)), path)


def pt_dict(path: Path) -> None:
    torch.save({"x": torch.tensor(X), "edge_index": torch.tensor(EDGES), "y": torch.tensor(Y)}, path)


def edge_list(delimiter: str) -> Callable[[Path], None]:
    return lambda path: np.savetxt(path, EDGES.T, "%d", delimiter)


def parquet(path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"weight": np.ones(5), "src": EDGES[0], "dst": EDGES[1]}), path)


def network(**more: Any) -> networkx.DiGraph:
    graph = networkx.DiGraph()
    for node, row in enumerate(X.tolist()):
        graph.add_node(node, a=row[0], b=row[1], c=row[2], **{"class": int(Y[node]), "note": "text", **more})
    graph.add_edges_from(EDGES.T.tolist())
    return graph


def npz_of_others(path: Path) -> None:
    np.savez(path, edges=EDGES.T, node_features=X, node_labels=Y, train_masks=np.ones((10, 4), bool))


def node_link(path: Path) -> None:
    path.write_text(json.dumps(networkx.node_link_data(network(), edges="links")))


def node_link_edges(path: Path) -> None:
    path.write_text(json.dumps(networkx.node_link_data(network(), edges="edges")))


def compressed(write: Callable[[Path], object]) -> Callable[[Path], None]:
    def write_compressed(path: Path) -> None:
        plain = path.with_suffix("")
        write(plain)
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()

    return write_compressed


def mtx(path: Path) -> None:
    scipy.io.mmwrite(path, adjacency())


GRAPH_FILES: dict[str, tuple[str, Callable[[Path], None]]] = {  # one graph in every format
    "npz": ("g.npz", npz),
    "csr": ("g.npz", npz_csr),
    "csr with dense features": ("g.npz", npz_dense_features),
    "safetensors": ("g.safetensors", safetensors),
    "pyg": ("g.pt", pt_data),
    "dict": ("g.pt", pt_dict),
    "others' npz": ("g.npz", npz_of_others),
    "graphml": ("g.graphml", lambda path: networkx.write_graphml(network(), path)),
    "gexf": ("g.gexf", lambda path: networkx.write_gexf(network(viz={"size": 2.0}), path)),
    "gml": ("g.gml", lambda path: networkx.write_gml(network(), path)),
    "node-link": ("g.json", node_link),
    "node-link with edges": ("g.json", node_link_edges),
    "graphml.gz": ("g.graphml.gz", compressed(lambda path: networkx.write_graphml(network(), path))),
    "gexf.gz": ("g.gexf.gz", compressed(lambda path: networkx.write_gexf(network(), path))),
    "gml.gz": ("g.gml.gz", compressed(lambda path: networkx.write_gml(network(), path))),
    "json.gz": ("g.json.gz", compressed(node_link)),
    "npy": ("g.npy", lambda path: np.save(path, EDGES)),
    "tall npy": ("g.npy", lambda path: np.save(path, EDGES.T)),
    "mtx": ("g.mtx", mtx),
    "mtx.gz": ("g.mtx.gz", compressed(mtx)),
    "edgelist": ("g.edgelist", lambda path: networkx.write_edgelist(network(), path)),
    "csv.gz": ("g.csv.gz", compressed(edge_list(","))),
    "tsv.gz": ("g.tsv.gz", compressed(edge_list("\t"))),
    "txt.gz": ("g.txt.gz", compressed(edge_list(" "))),
    "edgelist.gz": ("g.edgelist.gz", compressed(edge_list(" "))),
    "csv": ("g.csv", edge_list(",")),
    "tsv": ("g.tsv", edge_list("\t")),
    "txt": ("g.txt", edge_list(" ")),
    "parquet": ("g.parquet", parquet),
}
FEATURE_FILES: dict[str, Callable[[Path], object]] = {  # the features of that graph
    "x.npy": lambda path: np.save(path, X),
    "x.csv": lambda path: np.savetxt(path, np.c_[np.arange(4), X], "%g", ","),
    "x.tsv": lambda path: np.savetxt(path, np.c_[np.arange(4), X], "%g", "\t"),
    "x.txt": lambda path: np.savetxt(path, np.c_[np.arange(4), X], "%g", " "),
    "x.csv.gz": compressed(lambda path: np.savetxt(path, np.c_[np.arange(4), X], "%g", ",")),
    "x.edgelist": lambda path: np.savetxt(path, np.c_[np.arange(4), X[:, :1]], "%g", " "),
    "x.parquet": lambda path: pyarrow.parquet.write_table(
        pyarrow.table({"node": [str(node) for node in range(4)], "embedding": X.tolist()}), path
    ),
    "x.npz": lambda path: np.savez(path, embeddings=X[[2, 0, 1, 3]], ids=np.array(["2", "0", "1", "3"])),
    "x.safetensors": lambda path: save_file({"x": X}, path),
    "x.pt": lambda path: torch.save(torch.tensor(X), path),
    "x.mtx": lambda path: scipy.io.mmwrite(path, scipy.sparse.coo_matrix(X)),
}
EDGES_ONLY = ("csv", "tsv", "txt", "parquet", "npy", "mtx", "edgelist")


@pytest.mark.parametrize("kind", GRAPH_FILES)
def test_every_format_holds_the_same_graph(kind: str, tmp_path: Path) -> None:
    name, write = GRAPH_FILES[kind]
    write(tmp_path / name)
    data = read_graph(str(tmp_path / name))
    assert pairs(data) == PAIRS
    assert data.ids == ["0", "1", "2", "3"]
    if Path(name).name.removesuffix(".gz").split(".")[-1] in EDGES_ONLY:
        assert "x" not in data
        assert "y" not in data
    else:
        assert data.x.tolist() == X.tolist()
        assert data.y.tolist() == Y.tolist()
        assert data.classes == ["0", "1"]


@pytest.mark.parametrize("name", FEATURE_FILES)
def test_every_table_holds_the_same_features(name: str, tmp_path: Path) -> None:
    edge_list(",")(tmp_path / "g.csv")
    FEATURE_FILES[name](tmp_path / name)
    data = read_graph(str(tmp_path / "g.csv"), str(tmp_path / name))
    rows = [data.ids.index(str(node)) for node in range(4)]
    assert data.x[rows].tolist() == (X[:, :1] if name == "x.edgelist" else X).tolist()


def test_every_format_is_tested() -> None:
    names = [Path(name) for name, _ in GRAPH_FILES.values()]
    assert {name.suffix for name in names} - {".gz"} == {*GRAPH_READERS, *TABLE_FILES}
    assert {name.suffixes[-2] for name in names if name.suffix == ".gz"} == GZIP_FORMATS
    assert {Path(name).suffix for name in FEATURE_FILES} - {".gz"} == {*TABLE_READERS, *TABLE_FILES}


def test_safe_globals_are_restored_after_reading(tmp_path: Path) -> None:
    before = set(torch.serialization.get_safe_globals())
    pt_data(tmp_path / "g.pt")
    read_graph(str(tmp_path / "g.pt"))
    assert set(torch.serialization.get_safe_globals()) == before


def test_names_in_parquet_and_graphml(tmp_path: Path) -> None:
    names = np.array(NAMES)
    table = pyarrow.table({"weight": np.ones(5), "source": names[EDGES[0]], "target": names[EDGES[1]]})
    pyarrow.parquet.write_table(table, tmp_path / "g.parquet")
    data = read_graph(str(tmp_path / "g.parquet"))
    assert data.ids == NAMES
    assert pairs(data) == PAIRS
    graph = networkx.Graph()
    for index, name in enumerate(NAMES):
        graph.add_node(name, age=float(X[index, 0]), size=int(X[index, 1]), label=f"c{Y[index]}", note="text")
    graph.add_edges_from((NAMES[a], NAMES[b]) for a, b in EDGES.T)
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    data = read_graph(str(tmp_path / "g.graphml"))
    assert data.ids == NAMES
    assert data.x.tolist() == X[:, :2].tolist()
    assert data.classes == ["c0", "c1"]


ENTITIES = '<?xml version="1.0"?><!DOCTYPE g [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><graphml>&b;</graphml>'


def broken(tmp_path: Path, name: str) -> list[str]:
    """Write one bad input, and say what to read."""
    good, path = tmp_path / "good.csv", tmp_path / name
    good.write_text("0,1\n1,2\n")
    np.save(tmp_path / "three.npy", X[:3])
    npz(tmp_path / "good.npz")
    good_npz = (tmp_path / "good.npz").read_bytes()
    pt_data(tmp_path / "good.pt")
    good_pt = (tmp_path / "good.pt").read_bytes()
    contents: dict[str, Callable[[], object]] = {
        "word.csv": lambda: path.write_text("hello\nworld\n"),
        "ragged.csv": lambda: path.write_text("a,b\nc,d\ne\n"),
        "empty.csv": lambda: path.write_text("\n# nothing\n"),
        "negative.csv": lambda: path.write_text("0,1\n-1,2\n"),
        "noise.npz": lambda: path.write_bytes(b"no archive at all"),
        "short.npz": lambda: path.write_bytes(good_npz[:-200]),
        "objects.npz": lambda: np.savez(path, edge_index=np.array([{"a": 1}], dtype=object)),
        "no_edges.npz": lambda: np.savez(path, x=X),
        "float_edges.npz": lambda: np.savez(path, edge_index=EDGES.astype(float)),
        "rows.npz": lambda: np.savez(path, edge_index=EDGES, x=X, y=Y[:3]),
        "beyond.npz": lambda: np.savez(path, edge_index=EDGES + 2, x=X),
        "oblong.npz": lambda: np.savez(path, **csr("adj", scipy.sparse.csr_matrix(X))),
        "evil.pt": lambda: path.write_bytes(pickle.dumps(print)),
        "object.pt": lambda: torch.save({"x": Path("x")}, path),
        "list.pt": lambda: torch.save([1, 2], path),
        "noise.safetensors": lambda: path.write_bytes(b"no tensors"),
        "noise.parquet": lambda: path.write_bytes(b"no table"),
        "noise.graphml": lambda: path.write_text("<graphml"),
        "latin.csv": lambda: path.write_bytes("Jörg,Änne\n".encode("latin-1")),
        "nodes.csv": lambda: path.write_text("id,name,age\n1,Ann,30\n"),
        "cut.pt": lambda: path.write_bytes(good_pt[:300]),
        "other.graphml": lambda: path.write_text("<a/>"),
        "folder.csv": path.mkdir,
        "archive.npy": lambda: path.write_bytes(good_npz),
        "number.npy": lambda: np.save(path, 3.0),
        "names.npy": lambda: good.write_text("ann,bob\n"),
        "header.csv": lambda: path.write_text("id,size,age\n0,1,2\n1,3,b\n2,1,1\n"),
        "nameless.csv": lambda: path.write_text("a,b\n,c\n"),
        "blank.csv": lambda: path.write_text("0,1\n,1\n2,0\n"),
        "words.csv": lambda: path.write_text("0,a\n1,b\n2,c\n"),
        "stranger.csv": lambda: path.write_text("x,1\ny,1\nz,1\n"),
        "infinite.csv": lambda: path.write_text("id,size,age\n0,1,2\n1,3,3\n2,1,inf\n"),
        "entities.graphml": lambda: path.write_text(ENTITIES),
        "entities.gexf": lambda: path.write_text(ENTITIES),
        "links.json": lambda: path.write_text('{"nodes": [{"id": 1}], "links": [{"source": 1}]}'),
        "list.json": lambda: path.write_text("[1, 2]"),
        "stranger.json": lambda: path.write_text('{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 7}]}'),
        "noise.json": lambda: path.write_text("{nothing"),
        "noise.gml": lambda: path.write_text("graph [ node"),
        "noise.mtx": lambda: path.write_text("%%MatrixMarket nothing"),
        "noise.csv.gz": lambda: path.write_bytes(b"not compressed"),
        "good.npz.gz": lambda: path.write_bytes(gzip.compress(good_npz)),
        "two.npy": lambda: np.save(path, X[:2]),
        "twice.csv": lambda: path.write_text("0,1\n1,1\n1,1\n2,0\n"),
        "short.csv": lambda: path.write_text("0,1,2\n1,1,2\n2,1,3\n"),
    }
    if name in contents:
        contents[name]()
    tables = ("words.csv", "header.csv", "blank.csv", "stranger.csv", "twice.csv", "infinite.csv")
    if name == "short.csv":  # labels
        return [str(good), str(tmp_path / "three.npy"), str(path)]
    if name == "names.npy":
        return [str(good), str(tmp_path / "three.npy")]
    return [str(good), str(path)] if name in tables or name.endswith(".npy") else [str(path)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.csv", "there is no file"),
        ("graph.xls", "there is no file"),
        ("word.csv", "line 1 has one value"),
        ("ragged.csv", "line 3 has 1 values"),
        ("empty.csv", "is empty"),
        ("negative.csv", "not negative"),
        ("noise.npz", "cannot be read"),
        ("short.npz", "cannot be read"),
        ("objects.npz", "objects are never loaded"),
        ("no_edges.npz", "no edges among x"),
        ("float_edges.npz", "need to be integers"),
        ("rows.npz", "3 labels for 4 nodes"),
        ("beyond.npz", "node `5`, which does not exist"),
        ("oblong.npz", "is square"),
        ("evil.pt", "objects are never loaded"),
        ("object.pt", "objects are never loaded"),
        ("list.pt", "holds a list"),
        ("noise.safetensors", "cannot be read"),
        ("noise.parquet", "cannot be read"),
        ("noise.graphml", "cannot be read"),
        ("latin.csv", "no text in UTF-8"),
        ("nodes.csv", "the header of a table of nodes"),
        ("cut.pt", "cannot be read|holds objects, or is broken"),
        ("other.graphml", "cannot be read"),
        ("folder.csv", "is a folder without a table of edges"),
        ("archive.npy", "several arrays"),
        ("number.npy", "holds a single number"),
        ("names.npy", r"three.npy`: no row for node `ann`, which has edges"),
        ("words.csv", "words.csv`: there are no features: left out, with another name for every node: column `2`"),
        ("header.csv", r"header.csv`: line 3 holds `b` in column `age`, whose other values are numbers"),
        ("infinite.csv", r"infinite.csv`: line 4 holds inf in column `age`"),
        ("entities.graphml", "declares entities"),
        ("entities.gexf", "declares entities"),
        ("links.json", "link 0 has no `source` and `target`"),
        ("list.json", "no `nodes` and `links`"),
        ("stranger.json", "an edge names node '7', which does not exist"),
        ("noise.json", "cannot be read"),
        ("noise.gml", "cannot be read"),
        ("noise.mtx", "cannot be read"),
        ("noise.csv.gz", "cannot be read"),
        ("good.npz.gz", "text formats alone may be compressed"),
        ("nameless.csv", "line 2 lacks a node name"),
        ("blank.csv", "line 2 has an empty name in column `1`"),
        ("stranger.csv", "names such as `x` are no node of the graph, as `0` is: no row of features is used"),
        ("two.npy", "two.npy`: no row for node `2`"),
        ("twice.csv", "twice.csv`: 1 names belong to more than one node, such as `1`"),
        ("short.csv", "short.csv`: which column is the class: `2`, `3`"),
    ],
)
def test_bad_files_are_refused_in_one_line(name: str, message: str, tmp_path: Path) -> None:
    arguments = broken(tmp_path, name)
    with pytest.raises(InputError, match=message) as stopped:
        read_graph(*arguments)
    assert len(str(stopped.value).split("\n\nhint: ")[0].splitlines()) == 1
    assert "\n\nhint: " in str(stopped.value)


def test_an_unknown_extension(tmp_path: Path) -> None:
    (tmp_path / "g.xls").write_text("")
    with pytest.raises(InputError, match=r"unknown file extension of a graph `.xls`"):
        read_graph(str(tmp_path / "g.xls"))
