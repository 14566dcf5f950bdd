"""Files that are read well and do not fit together: each mistake has its own line."""

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from progcl import InputError
from progcl.data.datasets import load_dataset
from progcl.data.features import Feature
from progcl.data.formats import read_graph
from progcl.data.tables import as_array

EDGES = np.array([[0, 1], [1, 2]])


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a user, by name."""
    monkeypatch.chdir(tmp_path)
    np.savez("g.npz", edge_index=EDGES, num_nodes=3)
    np.savez("flat.npz", edge_index=np.arange(4))
    np.savez("wide.npz", edge_index=EDGES, num_nodes=3, x=np.zeros((3, 2, 2)))
    np.savez("lengths.npz", x=np.zeros((3, 2)), y=np.zeros(2))
    np.savez("nothing.npz", other=np.zeros(3))
    np.savez("pointer.npz", adj_indptr=np.zeros(3, int))
    np.savez("complex.npz", x=np.ones((3, 2), complex))
    np.savez("negative.npz", edge_index=EDGES - 1)
    np.savez("empty_name.npz", edge_index=EDGES, ids=np.array(["ann", "", "cid"]))
    pyarrow.parquet.write_table(pyarrow.table({"vector": [[1.0, 2.0]] * 3}), "vectors.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"a": [0, 1], "b": [1, 2], "w": [[1.0, 2.0]] * 2}), "pairs.parquet")
    np.save("x.npy", np.zeros((3, 2)))
    np.save("two.npy", np.zeros((2, 2)))
    texts = {
        "edges.csv": "ann,bob\nbob,cid\n",
        "costs.csv": "source,cost\nann,1\nbob,2\n",
        "numbers.csv": "0,1\n1,2\n",
        "ids.txt": "ann\nbob\n",
        "names.csv": "key,other\nann,x\nbob,y\ncid,z\n",
        "header.csv": "id,size\n",
        "ragged.csv": "id,size,age\nann,1\nbob,2\n",
        "classes.csv": "id,class\nann,a\nbob,b\n",
        "table.xls": "",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("folder.csv").mkdir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graph": "g.npz", "source": "a", "target": "b"}, "g.npz` has no columns for --source and --target"),
        ({"graph": "edges.csv", "source": "a"}, "--source and --target go together"),
        ({"graph": "edges.csv", "features_from": "table.xls"}, "unknown file extension of a table `.xls`"),
        ({"graph": "edges.csv", "features_from": "header.csv"}, "has a header and no rows"),
        ({"graph": "edges.csv", "features_from": "folder.csv"}, "folder.csv` is a folder"),
        ({"graph": "edges.csv", "features_from": "ragged.csv"}, "the header has 3 values, the first row 2"),
        ({"graph": "edges.csv", "features_from": "x.npy"}, "no row for node `ann`"),
        ({"graph": "numbers.csv", "labels_from": "two.npy"}, "labels .2, 2. for|no row of labels for node `2`"),
        ({"graph": "g.npz", "ids_from": "ids.txt"}, "--ids has 2 names for 3 nodes"),
        ({"graph": "flat.npz"}, r"edges need to be \[2, E\] \(got \[4\]\)"),
        ({"graph": "wide.npz"}, r"features \[3, 2, 2\] for 3 nodes"),
        ({"graph": "pointer.npz"}, "`adj_indptr` without `adj_indices`"),
        ({"graph": "negative.npz"}, "an edge names node -1: node numbers are not negative"),
        ({"graph": "empty_name.npz"}, "node number 1 has an empty name"),
        ({"graph": "vectors.parquet"}, "vectors.parquet` has 1 column, an edge needs 2"),
        ({"graph": "costs.csv", "weight": "cost"}, "costs.csv` has 2 columns, an edge needs 2 beside its weight"),
        ({"graph": "pairs.parquet", "weight": "w"}, "`w` holds 2 numbers for an edge"),
        ({"graph": "edges.csv", "features_from": "vectors.parquet"}, "no column names the nodes"),
        ({"graph": "g.npz", "features_from": "two.npy"}, "2 rows of features for 3 nodes"),
        ({"graph": "numbers.csv", "features_from": "lengths.npz"}, "arrays of different lengths"),
        ({"graph": "numbers.csv", "features_from": "nothing.npz"}, "no features or labels among other"),
        ({"graph": "numbers.csv", "features_from": "complex.npz"}, "features of type complex128"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_graph(**arguments)  # type: ignore[arg-type]
    assert caught.value.hint


def test_names_come_from_the_column_that_is_meant() -> None:
    data = read_graph("g.npz", ids_from="names.csv", id_column="other")
    assert data.ids == ["x", "y", "z"]
    assert read_graph("g.npz", ids_from="names.csv").ids == ["ann", "bob", "cid"]


def test_a_plan_is_not_applied_to_other_columns() -> None:
    with pytest.raises(InputError, match="column `age` holds text"):
        Feature("age", "numbers", fill=[0.0]).transform(np.array(["a"]))
    with pytest.raises(InputError, match="2 numbers in column `age`"):
        Feature("age", "numbers", fill=[0.0]).transform(np.zeros((3, 2)))


def test_a_file_needs_a_name() -> None:
    with pytest.raises(InputError, match=r"`data.graph` names no file"):
        load_dataset("file")
    with pytest.raises(InputError, match="a graph of your own, which has no file"):
        load_dataset("own")


@pytest.mark.filterwarnings("ignore:Sparse CSC tensor support is in beta")
def test_sparse_tensors_of_any_layout_are_matrices() -> None:
    import torch

    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    for tensor in (dense.to_sparse(), dense.to_sparse_csc()):
        assert as_array(tensor).toarray().tolist() == dense.tolist()
