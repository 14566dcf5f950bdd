"""Names, features and labels are joined by name or by number."""

from pathlib import Path

import networkx
import numpy as np
import pytest

from progcl import InputError
from progcl.data.formats import read_graph
from progcl.data.join import join
from progcl.data.networks import from_networkx
from progcl.data.node_rows import JoinOptions
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
    twice, x = write_files(tmp_path, t_csv="007,a\n010,b\n010,c\n", x_csv="007,1\n010,2\n#tag,3\n")
    with pytest.raises(InputError, match=r"`.*t.csv`: 1 rows name a node again, such as `010`"):
        read_graph(edges, x, twice)


def test_attributes_of_networkx_become_features_and_labels(tmp_path: Path) -> None:
    graph = networkx.DiGraph()
    for node in range(6):
        graph.add_node(node, size=np.float32(node), x=[node, 2.0 * node], label=f"name {node}", y=node % 2, note=None)
    graph.add_edges_from([(0, 1), (1, 2), (4, 5)])
    found = join(from_networkx(graph))
    assert found.x is not None
    assert found.x.tolist() == [[node, node, 2 * node] for node in range(6)]
    assert found.classes == ["0", "1"]  # every `label` is another: names of nodes
    graph.add_node("0", size=1.0, x=[0, 0], label="", y=0, note=None)
    with pytest.raises(InputError, match="more than one node"):
        join(from_networkx(graph))


def test_labels_with_gaps_are_unknown_and_add_no_nodes(tmp_path: Path) -> None:
    edges, x = write_files(tmp_path, g_csv="a,b\nb,c\nc,d\nd,e\n", x_csv="id,size\na,1\nb,2\nc,3\nd,4\ne,5\nlone,6\n")
    (labels,) = write_files(tmp_path, y_csv="id,club\na,red\nb,\nc,-1\nd,NaN\nlone,blue\nstranger,red\n")
    data = read_graph(edges, labels_from=labels)
    assert data.ids == ["a", "b", "c", "d", "e"]
    assert data.y.tolist() == [0, -1, -1, -1, -1]
    said = " ".join(data.remarks)
    assert "2 rows of labels name no node of the graph and are not used" in said
    assert "4 of 5 nodes have no label (empty, -1 or NaN)" in said
    data = read_graph(edges, x, labels)  # a node with features and a label may have no edges
    assert data.ids == ["a", "b", "c", "d", "e", "lone"]
    assert data.y.tolist() == [1, -1, -1, -1, -1, 0]
    assert data.classes == ["blue", "red"]


def test_the_column_that_names_the_nodes(tmp_path: Path) -> None:
    edges, x = write_files(tmp_path, g_csv="a,b\nb,c\n", x_csv="size,id,key\n1,a,u\n2,b,v\n3,c,w\n")
    data = read_graph(edges, x)
    assert data.x.tolist() == [[1], [2], [3]]
    assert any("nodes are named by the column `id`" in remark for remark in data.remarks)
    (other,) = write_files(tmp_path, o_csv="user,size\n1,a\n2,b\n3,c\n")
    assert read_graph(edges, other, id_column="size").x.tolist() == [[1], [2], [3]]
    (table,) = write_files(tmp_path, t_csv="size,who,team\n1,a,x\n2,b,x\n3,c,y\n")
    data = read_graph(edges, labels_from=table, id_column="who", label_column="team")
    assert [data.classes[number] for number in data.y] == ["x", "x", "y"]
    with pytest.raises(InputError, match=r"no column `tema`, which --label-column names\n\nhint: did you mean `team`"):
        read_graph(edges, labels_from=table, id_column="who", label_column="tema")


def test_rows_without_names_are_named_by_ids(tmp_path: Path) -> None:
    edges, ids = write_files(tmp_path, g_csv="ann,bob\nbob,cid\n", i_txt="name\ncid\nann\nbob\n")
    np.save(tmp_path / "x.npy", X[:3])
    np.save(tmp_path / "y.npy", np.array([1.0, 0.0, np.nan]))
    data = read_graph(edges, str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), ids)
    assert data.ids == ["cid", "ann", "bob"]
    assert data.x.tolist() == X[:3].tolist()
    assert data.y.tolist() == [1, 0, -1]
    (table,) = write_files(tmp_path, t_csv="age,size\n1.5,2\n2.5,3\n3.5,4\n")
    assert read_graph(edges, table, ids_from=ids).x.tolist() == [[1.5, 2], [2.5, 3], [3.5, 4]]
    np.save(tmp_path / "ids.npy", np.array(["cid", "ann"]))
    with pytest.raises(InputError, match=r"3 rows for 2 names of --ids"):
        read_graph(edges, str(tmp_path / "x.npy"), ids_from=str(tmp_path / "ids.npy"))


def test_nodes_without_a_row_of_features_are_imputed_with_a_note(tmp_path: Path) -> None:
    edges, x = write_files(tmp_path, g_csv="a,b\nb,c\nc,d\n", x_csv="id,size\na,1\nb,2\nc,9\n")
    data = read_graph(edges, x)
    assert data.x.tolist() == [[1], [2], [9], [2]]
    assert any("1 nodes have no row of features" in remark for remark in data.remarks)


def test_a_folder_of_nodes_and_edges(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("Source,Target,Type\na,b,Directed\nb,c,Directed\nc,d,Directed\n")
    (tmp_path / "nodes.csv").write_text(
        "Id,Label,class,size\na,An A,0,1\nb,A B,0,2\nc,A C,1,3\nd,A D,1,4\nlone,L L,,5\n"
    )
    data = read_graph(str(tmp_path))
    assert data.ids == ["a", "b", "c", "d", "lone"]
    assert data.x.tolist() == [[1], [2], [3], [4], [5]]
    assert data.y.tolist() == [0, 0, 1, 1, -1]
    with pytest.raises(InputError, match=r"has its features in `nodes.csv`"):
        read_graph(str(tmp_path), str(tmp_path / "nodes.csv"))
    (tmp_path / "edges.tsv").write_text("a\tb\n")
    with pytest.raises(InputError, match="2 tables of edges"):
        read_graph(str(tmp_path))


def test_columns_of_another_graph_are_read_as_the_first_ones_were(tmp_path: Path) -> None:
    graph, other = networkx.path_graph(4), networkx.path_graph(4)
    for node in range(4):
        graph.add_node(node, size=[1, 2000, 3, 4][node], kind="ab"[node % 2])
        other.add_node(node, size=50_000, kind="bc"[node % 2])
    first = join(from_networkx(graph))
    second = join(from_networkx(other), options=JoinOptions(plan=first.plan))
    assert first.x is not None
    assert second.x is not None
    assert second.x.shape == first.x.shape
    assert second.x[:2, 0:2].tolist() == [[0, 1], [0, 0]]  # `c` was not there
    assert second.x[0, 2] == 10  # cut off, scaled as before


def test_a_label_column_among_the_features_is_the_class(tmp_path: Path) -> None:
    edges, x = write_files(tmp_path, g_csv="a,b\nb,c\n", x_csv="id,size,team\na,1,u\nb,2,u\nc,3,v\n")
    data = read_graph(edges, x, label_column="team")
    assert data.x.tolist() == [[1], [2], [3]]
    assert [data.classes[number] for number in data.y] == ["u", "u", "v"]


@pytest.mark.parametrize(("half", "is_class"), [(0.0, True), (0.5, False)])
def test_numbers_that_are_not_whole_are_no_class(half: float, is_class: bool) -> None:
    graph = networkx.path_graph(4)
    for node in range(4):
        graph.nodes[node].update(label=node // 2 + half, size=node)
    data = join(from_networkx(graph))
    assert data.x is not None
    assert (data.y is not None, data.x.shape[1]) == (is_class, 1 if is_class else 2)


def test_classes_of_the_graph_are_kept_beside_features_of_a_table(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", edge_index=EDGES, y=Y, ids=np.array(NAMES))
    (x,) = write_files(tmp_path, x_csv="id,size\n" + "".join(f"{name},{row}\n" for row, name in enumerate(NAMES)))
    data = read_graph(str(tmp_path / "g.npz"), x)
    assert {name: data.classes[kind] for name, kind in zip(data.ids, data.y, strict=True)} == {
        name: str(kind) for name, kind in zip(NAMES, Y.tolist(), strict=True)
    }
