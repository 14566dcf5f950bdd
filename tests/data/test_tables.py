"""Names, features and labels are joined by name or by number."""

from pathlib import Path

import networkx
import numpy as np
import pytest

from progcl import InputError
from progcl.data.formats import read_graph
from progcl.data.tables import assemble, from_networkx
from support.graphs import EDGES, NAMES, X, Y, pairs, write_files


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


def test_rows_of_an_npy_belong_to_numbers_whatever_the_order_of_a_table(tmp_path: Path) -> None:
    edges, x = write_files(tmp_path, g_csv="0,1\n1,2\n2,3\n", x_csv="3,30\n0,0\n1,10\n2,20\n")
    np.save(tmp_path / "y.npy", np.array([100, 101, 102, 103]))
    data = read_graph(edges, x, str(tmp_path / "y.npy"))
    assert {name: data.classes[kind] for name, kind in zip(data.ids, data.y, strict=True)} == {
        str(node): str(100 + node) for node in range(4)
    }


def test_names_and_classes_are_kept_as_they_are_written(tmp_path: Path) -> None:
    edges, labels = write_files(tmp_path, g_csv="007,010\n010,#tag\n", y_csv="007,01\n010,1\n#tag,2\n")
    data = read_graph(edges, labels_from=labels)
    assert data.ids == ["007", "010", "#tag"]
    assert data.classes == ["01", "1", "2"]
    (empty,) = write_files(tmp_path, e_csv="007,a\n010,\n#tag,b\n")
    with pytest.raises(InputError, match=r"`.*e.csv`: 1 of 3 nodes have no label, such as `010`"):
        read_graph(edges, labels_from=empty)
    twice, x = write_files(tmp_path, t_csv="007,a\n010,b\n010,c\n", x_csv="007,1\n010,2\n#tag,3\n")
    with pytest.raises(InputError, match=r"`.*t.csv`: 3 rows of labels for 3 nodes"):
        read_graph(edges, x, twice)


def test_attributes_of_networkx_become_features_and_labels(tmp_path: Path) -> None:
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
