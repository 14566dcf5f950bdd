"""Every format gives the same graph, names of nodes come back, and what cannot be read is said in a line."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import scipy.sparse
import torch
from safetensors.numpy import save_file
from torch_geometric.data import Data

from progcl import InputError
from progcl.data.formats import read_graph
from progcl.data.tables import assemble, from_networkx

EDGES = np.array([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
X = np.arange(12, dtype=np.float32).reshape(4, 3)
Y = np.array([0, 0, 1, 1])
NAMES = ["ann", "bob", "cid", "dan"]


def csr(prefix: str, matrix: scipy.sparse.csr_matrix) -> dict[str, Any]:
    return {f"{prefix}_{key}": np.asarray(getattr(matrix, key)) for key in ("data", "indices", "indptr", "shape")}


def adjacency() -> scipy.sparse.csr_matrix:
    return scipy.sparse.csr_matrix((np.ones(5), EDGES), (4, 4))


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


WHOLE: dict[str, tuple[str, Callable[[Path], None]]] = {
    "npz": ("g.npz", npz),
    "csr": ("g.npz", npz_csr),
    "csr with dense features": ("g.npz", npz_dense_features),
    "safetensors": ("g.safetensors", safetensors),
    "pyg": ("g.pt", pt_data),
    "dict": ("g.pt", pt_dict),
}


def pairs(data: Data) -> set[tuple[int, int]]:
    return set(map(tuple, data.edge_index.T.tolist()))


@pytest.mark.parametrize("kind", WHOLE)
def test_files_of_arrays(kind: str, tmp_path: Path) -> None:
    name, write = WHOLE[kind]
    write(tmp_path / name)
    data = read_graph(str(tmp_path / name))
    assert pairs(data) == set(map(tuple, EDGES.T.tolist()))
    assert data.x.tolist() == X.tolist()
    assert data.y.tolist() == Y.tolist()
    assert data.classes == ["0", "1"]
    assert data.ids == ["0", "1", "2", "3"]


def test_what_pyg_may_load_stays_allowed(tmp_path: Path) -> None:
    before = set(torch.serialization.get_safe_globals())
    pt_data(tmp_path / "g.pt")
    read_graph(str(tmp_path / "g.pt"))
    assert set(torch.serialization.get_safe_globals()) == before


def test_an_adjacency_as_scipy_saves_it(tmp_path: Path) -> None:
    scipy.sparse.save_npz(tmp_path / "g.npz", adjacency())
    data = read_graph(str(tmp_path / "g.npz"))
    assert pairs(data) == set(map(tuple, EDGES.T.tolist()))
    assert data.num_nodes == 4
    assert data.get("x") is None


@pytest.mark.parametrize("head", ["", "source,target\n", "# a comment\n", "SRC,DST\n"])
@pytest.mark.parametrize(("ending", "cut"), [("csv", ","), ("tsv", "\t"), ("txt", " "), ("csv", ";")])
@pytest.mark.parametrize("named", [False, True])
def test_edge_lists(head: str, ending: str, cut: str, named: bool, tmp_path: Path) -> None:
    lines = [cut.join([NAMES[a], NAMES[b]] if named else [str(a), str(b)]) for a, b in EDGES.T]
    (tmp_path / f"g.{ending}").write_text(head.replace(",", cut) + "\n".join(lines) + "\n")
    data = read_graph(str(tmp_path / f"g.{ending}"))
    assert data.ids == (NAMES if named else ["0", "1", "2", "3"])
    assert pairs(data) == set(map(tuple, EDGES.T.tolist()))


def test_further_columns_quotes_and_blank_lines(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text('"Ann, A.",bob,0.5\n\nbob,cid,1\n')
    data = read_graph(str(tmp_path / "g.csv"))
    assert data.ids == ["Ann, A.", "bob", "cid"]
    assert data.edge_index.size(1) == 2


def test_numbers_with_gaps_are_names(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("10 200\n200 3\n")
    data = read_graph(str(tmp_path / "g.txt"))
    assert data.ids == ["3", "10", "200"]
    assert pairs(data) == {(1, 2), (2, 0)}


def test_tables_beside_an_edge_list_are_joined_by_name(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("".join(f"{NAMES[a]},{NAMES[b]}\n" for a, b in EDGES.T))
    order = [2, 0, 3, 1]
    rows = ["id,first,second,third", *(f"{NAMES[i]},{','.join(map(str, X[i]))}" for i in order)]
    (tmp_path / "x.csv").write_text("\n".join(rows))
    (tmp_path / "y.tsv").write_text("\n".join(f"{NAMES[i]}\t{'new' if Y[i] else 'old'}" for i in range(4)))
    data = read_graph(str(tmp_path / "g.csv"), str(tmp_path / "x.csv"), str(tmp_path / "y.tsv"))
    assert data.ids == [NAMES[i] for i in order]
    assert data.x.tolist() == X[order].tolist()
    assert [data.classes[number] for number in data.y] == [["old", "new"][Y[i]] for i in order]
    assert pairs(data) == {(order.index(a), order.index(b)) for a, b in EDGES.T}


def test_rows_of_arrays_are_joined_by_number(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("".join(f"{a} {b}\n" for a, b in EDGES.T))
    np.save(tmp_path / "x.npy", np.vstack([X, X]))
    np.save(tmp_path / "y.npy", np.arange(8) % 2)
    data = read_graph(*(str(tmp_path / name) for name in ("g.txt", "x.npy", "y.npy")))
    assert data.num_nodes == 8
    assert data.x[6].tolist() == X[2].tolist()


def test_parquet_and_graphml(tmp_path: Path) -> None:
    names = np.array(NAMES)
    table = pyarrow.table({"weight": np.ones(5), "source": names[EDGES[0]], "target": names[EDGES[1]]})
    pyarrow.parquet.write_table(table, tmp_path / "g.parquet")
    data = read_graph(str(tmp_path / "g.parquet"))
    assert data.ids == NAMES
    assert pairs(data) == set(map(tuple, EDGES.T.tolist()))
    graph = networkx.Graph()
    for index, name in enumerate(NAMES):
        graph.add_node(name, age=float(X[index, 0]), size=int(X[index, 1]), label=f"c{Y[index]}", note="text")
    graph.add_edges_from((NAMES[a], NAMES[b]) for a, b in EDGES.T)
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    data = read_graph(str(tmp_path / "g.graphml"))
    assert data.ids == NAMES
    assert data.x.tolist() == X[:, :2].tolist()
    assert data.classes == ["c0", "c1"]


def write(tmp_path: Path, **files: str) -> list[str]:
    """Files by name, `_` for the dot; their paths."""
    for name, text in files.items():
        (tmp_path / name.replace("_", ".")).write_text(text)
    return [str(tmp_path / name.replace("_", ".")) for name in files]


@pytest.mark.parametrize("ids", [["a", "b", "c", "d"], [3, 2, 1, 0]])
def test_ids_in_a_file_of_arrays_are_names_and_edges_are_places(ids: list[Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", edge_index=EDGES, x=X, ids=np.array(ids))
    data = read_graph(str(tmp_path / "g.npz"))
    assert pairs(data) == set(map(tuple, EDGES.T.tolist()))
    assert data.ids == [str(name) for name in ids]
    np.savez(tmp_path / "b.npz", **csr("adj", adjacency()), x=X, ids=np.array(NAMES, dtype="S"))
    assert read_graph(str(tmp_path / "b.npz")).ids == NAMES
    np.savez(tmp_path / "g.npz", edge_index=EDGES, x=X, ids=np.array(ids[:3]))
    with pytest.raises(InputError, match="3 ids for 4 nodes"):
        read_graph(str(tmp_path / "g.npz"))


def test_rows_of_an_npy_belong_to_numbers_whatever_the_order_of_a_table(tmp_path: Path) -> None:
    edges, x = write(tmp_path, g_csv="0,1\n1,2\n2,3\n", x_csv="3,30\n0,0\n1,10\n2,20\n")
    np.save(tmp_path / "y.npy", np.array([100, 101, 102, 103]))
    data = read_graph(edges, x, str(tmp_path / "y.npy"))
    assert {name: data.classes[kind] for name, kind in zip(data.ids, data.y, strict=True)} == {
        str(node): str(100 + node) for node in range(4)
    }


def test_names_with_commas_in_a_tsv_and_numbers_with_commas_in_a_csv(tmp_path: Path) -> None:
    (tsv,) = write(tmp_path, g_tsv="Smith, J\tDoe, A\nDoe, A\tRoe, R\n")
    assert read_graph(tsv).ids == ["Smith, J", "Doe, A", "Roe, R"]
    (path,) = write(tmp_path, g_csv="a;b;0,5\nb;c;0,1\n")
    assert read_graph(path).ids == ["a", "b", "c"]


def test_heads_as_pandas_writes_them(tmp_path: Path) -> None:
    rows = "ann,1\nbob,2\ncid,3\n"
    edges, named, unnamed = write(tmp_path, g_csv="ann,bob\nbob,cid\n", x_csv=f"user,f0\n{rows}", z_csv=f",0\n{rows}")
    for table in (named, unnamed):
        data = read_graph(edges, table)
        assert data.ids == ["ann", "bob", "cid"]
        assert data.x.tolist() == [[1], [2], [3]]
    (mixed,) = write(tmp_path, m_csv="alice,3\n4,bob\n")
    assert read_graph(mixed).edge_index.size(1) == 2


def test_names_and_classes_are_kept_as_they_are_written(tmp_path: Path) -> None:
    edges, labels = write(tmp_path, g_csv="007,010\n010,#tag\n", y_csv="007,01\n010,1\n#tag,2\n")
    data = read_graph(edges, labels_from=labels)
    assert data.ids == ["007", "010", "#tag"]
    assert data.classes == ["01", "1", "2"]
    (empty,) = write(tmp_path, e_csv="007,a\n010,\n#tag,b\n")
    with pytest.raises(InputError, match="1 nodes have no label"):
        read_graph(edges, labels_from=empty)
    twice, x = write(tmp_path, t_csv="007,a\n010,b\n010,c\n", x_csv="007,1\n010,2\n#tag,3\n")
    with pytest.raises(InputError, match="3 rows of labels for 3 nodes"):
        read_graph(edges, x, twice)


def test_isolated_nodes_of_a_pyg_graph_count(tmp_path: Path) -> None:
    torch.save(Data(edge_index=torch.tensor(EDGES), num_nodes=9), tmp_path / "g.pt")
    assert read_graph(str(tmp_path / "g.pt")).num_nodes == 9
    big = torch.sparse_coo_tensor(torch.tensor([[0], [1]]), torch.ones(1), (10**6, 10**6), check_invariants=False)
    torch.save({"edge_index": torch.tensor(EDGES), "y": torch.arange(6), "other": big}, tmp_path / "g.pt")
    assert read_graph(str(tmp_path / "g.pt")).num_nodes == 6


def test_zeros_that_a_matrix_holds_are_no_edges(tmp_path: Path) -> None:
    matrix = adjacency()
    matrix.data[0] = 0
    np.savez(tmp_path / "g.npz", **csr("adj", matrix))
    assert read_graph(str(tmp_path / "g.npz")).edge_index.size(1) == 4


def test_a_long_name_takes_no_more_than_itself(tmp_path: Path) -> None:
    lines = "".join(f"n{index},n{index + 1}\n" for index in range(20_000))
    (path,) = write(tmp_path, g_csv=f"{lines}n0,{'x' * 5000}\n")
    assert max(map(len, read_graph(path).ids)) == 5000


def test_attributes_of_networkx(tmp_path: Path) -> None:
    graph = networkx.DiGraph()
    for node in range(6):
        graph.add_node(node, size=np.float32(node), x=[node, 2.0 * node], label=f"name {node}", y=node % 2, note=None)
    graph.add_edges_from([(0, 1), (1, 2), (4, 5)])
    found = assemble(from_networkx(graph))
    assert found.x.tolist() == [[node, node, 2 * node] for node in range(6)]
    assert found.classes == ["0", "1"]  # every `label` is another: names of nodes
    graph.add_node("0", size=1.0, x=[0, 0], label="", y=0, note=None)
    with pytest.raises(InputError, match="more than one node"):
        assemble(from_networkx(graph))


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
        "stranger.npz": lambda: np.savez(path, edge_index=EDGES + 2, x=X),
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
        "words.csv": lambda: path.write_text("0,a\n1,b\n2,c\n"),
        "unknown.csv": lambda: path.write_text("0,1\n1,1\n7,1\n"),
        "two.npy": lambda: np.save(path, X[:2]),
        "twice.csv": lambda: path.write_text("0,1\n1,1\n1,1\n2,0\n"),
        "short.csv": lambda: path.write_text("0,1\n1,1\n"),
    }
    if name in contents:
        contents[name]()
    beside = ("words.csv", "unknown.csv", "twice.csv")
    if name == "short.csv":  # labels
        return [str(good), str(tmp_path / "three.npy"), str(path)]
    if name == "names.npy":
        return [str(good), str(tmp_path / "three.npy")]
    return [str(good), str(path)] if name in beside or name.endswith(".npy") else [str(path)]


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
        ("float_edges.npz", "whole numbers"),
        ("rows.npz", "3 labels for 4 nodes"),
        ("stranger.npz", "node `5`, which does not exist|node `4`, which does not exist"),
        ("oblong.npz", "is square"),
        ("evil.pt", "objects are never loaded"),
        ("object.pt", "objects are never loaded"),
        ("list.pt", "holds a list"),
        ("noise.safetensors", "cannot be read"),
        ("noise.parquet", "cannot be read"),
        ("noise.graphml", "cannot be read"),
        ("latin.csv", "no text in UTF-8"),
        ("nodes.csv", "the head of a table of nodes"),
        ("cut.pt", "cannot be read|holds objects, or is broken"),
        ("other.graphml", "cannot be read"),
        ("folder.csv", "is a folder"),
        ("archive.npy", "several arrays"),
        ("number.npy", "no table"),
        ("names.npy", "node `ann` has edges, but no row"),
        ("words.csv", "need to be numbers"),
        ("unknown.csv", "node `2` has edges, but no row"),
        ("two.npy", "node `2` has edges, but no row"),
        ("twice.csv", "more than one node"),
        ("short.csv", "2 rows of labels for 3 nodes"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_line(name: str, message: str, tmp_path: Path) -> None:
    arguments = broken(tmp_path, name)
    with pytest.raises(InputError, match=message) as stopped:
        read_graph(*arguments)
    assert len(str(stopped.value).split("\n\nhint: ")[0].splitlines()) == 1
    assert "\n\nhint: " in str(stopped.value)


def test_an_unknown_ending(tmp_path: Path) -> None:
    (tmp_path / "g.xls").write_text("")
    with pytest.raises(InputError, match=r"unknown ending .*`.xls`"):
        read_graph(str(tmp_path / "g.xls"))
