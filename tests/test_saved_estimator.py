"""A fitted estimator is the same after it was written and read."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data

from progcl import InputError, ProGCL
from progcl.checksums import DamagedFile
from progcl.data.synthetic import csbm

DATA = csbm(nodes=200, classes=3, degree=10, features=8, signal=2.5)
BARE = Data(edge_index=DATA.edge_index, num_nodes=200)
PAIRS = pandas.DataFrame(DATA.edge_index.T.numpy(), columns=["source", "target"])
ROWS = pandas.DataFrame(DATA.x.numpy() * [1, 500, 1, 1, 1, 1, 1, 1], columns=[f"c{column}" for column in range(8)])
TABLE = ROWS.assign(id=range(200), kind=["abc"[kind] for kind in DATA.y])
GRAPHS: dict[str, Any] = {"graph": DATA, "without features": BARE, "tables": (PAIRS, TABLE), "rows": ROWS}


def small(**options: Any) -> ProGCL:
    return ProGCL(**{"hidden": 8, "epochs": 4, "random_state": 0, **options})


@pytest.mark.parametrize("name", GRAPHS)
def test_all_is_as_before(name: str, tmp_path: Path) -> None:
    options = {"dim": np.int64(9), "random_state": np.random.RandomState(3)} if name == "tables" else {}
    model = small(**options, options={"train.lr": 0.02}).fit(GRAPHS[name])
    model.save(tmp_path / "model.safetensors")
    again = ProGCL.load(tmp_path / "model.safetensors")
    assert again.get_params() == {**model.get_params(), "random_state": model.model_.config.train.seed}
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    np.testing.assert_allclose(again.transform(GRAPHS[name]), model.embedding_, atol=1e-5)
    fitted = ("remarks_", "loss_curve_", "mixture_", "choice_", "n_features_in_")
    assert [getattr(again, key) for key in fitted] == [getattr(model, key) for key in fitted]
    assert again.ids_.tolist() == model.ids_.tolist()
    assert getattr(again, "feature_names_in_", np.zeros(0)).tolist() == list(ROWS if name == "rows" else [])
    assert again.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()


@pytest.mark.parametrize("bare", [False, True])
def test_new_nodes_after_loading(bare: bool, tmp_path: Path) -> None:
    old = DATA.subgraph(torch.arange(170))
    given = [
        Data(edge_index=each.edge_index, num_nodes=each.num_nodes, x=None if bare else each.x) for each in (old, DATA)
    ]
    small().fit(given[0]).save(tmp_path / "model.safetensors")
    model = ProGCL.load(tmp_path / "model.safetensors")
    vectors = model.transform(given[1])
    assert vectors.shape == (200, model.embedding_.shape[1])
    before, now = model.embedding_, vectors[:170]
    cosines = (before * now).sum(axis=1) / np.linalg.norm(before, axis=1) / np.linalg.norm(now, axis=1)
    assert cosines.mean() > 0.85


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(NotFittedError):
        small().save(path)
    with pytest.raises(InputError, match="there is no file"):
        ProGCL.load(path)
    model = small().fit(DATA)
    model.model_.save(path)
    with pytest.raises(InputError, match="holds no ProGCL"):
        ProGCL.load(path)
    model.save(path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedFile):
        ProGCL.load(path)
    with pytest.raises(InputError, match="type object cannot be saved"):
        model.set_params(options={"train.lr": object()}).save(path)
