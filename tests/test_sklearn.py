"""ProGCL behaves as scikit-learn's estimators do, whatever a graph comes as."""

import pickle
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pandas
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch_geometric.data import Data, HeteroData

from progcl import InputError, ProGCL
from progcl.data.synthetic import csbm
from progcl.errors import ProgclWarning

pytestmark = pytest.mark.filterwarnings("ignore:no mixture fitted")

DATA = csbm(nodes=200, classes=3, degree=10, features=8, signal=2.5)
EXCEPTIONS = {
    "check_methods_subset_invariance": "a node's embedding depends on the graph around it: one row alone has none",
    "check_methods_sample_order_invariance": "holds to 1e-6 only: sums in float32 depend on the order of their terms",
}


def small(**options: Any) -> ProGCL:
    return ProGCL(**{"hidden": 8, "epochs": 6, "random_state": 0, **options})


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [ProGCL(hidden=8, epochs=3, random_state=0)], expected_failed_checks=lambda estimator: EXCEPTIONS
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(estimator: ProGCL, check: Any) -> None:
    check(estimator)


def test_order_of_rows_changes_rounding_only() -> None:
    rows = DATA.x.numpy()
    model, order = small().fit(rows), np.random.default_rng(0).permutation(200)
    np.testing.assert_allclose(model.transform(rows)[order], model.transform(rows[order]), atol=1e-5)


def adjacency() -> scipy.sparse.csr_matrix:
    return scipy.sparse.csr_matrix((np.ones(DATA.edge_index.size(1)), DATA.edge_index.numpy()), (200, 200))


def as_networkx() -> networkx.Graph:
    graph = networkx.Graph()
    for node in range(200):
        graph.add_node(node, **{f"f{column}": float(DATA.x[node, column]) for column in range(8)})
    graph.add_edges_from(DATA.edge_index.T.tolist())
    return graph


@pytest.mark.parametrize(
    "given",
    [
        (adjacency(), DATA.x.numpy()),
        (adjacency().toarray(), scipy.sparse.csr_matrix(DATA.x.numpy())),
        (torch.tensor(adjacency().toarray()), DATA.x),
        (torch.tensor(adjacency().toarray()).to_sparse(), DATA.x),
        as_networkx(),
    ],
    ids=["scipy", "numpy", "torch", "sparse torch", "networkx"],
)
def test_every_form_of_a_graph_is_the_same_graph(given: Any) -> None:
    expected = small().fit_transform(DATA)
    model = small().fit(given)
    np.testing.assert_allclose(model.embedding_, expected, atol=1e-5)
    np.testing.assert_allclose(model.transform(given), expected, atol=1e-5)


def test_edges_alone_are_no_features() -> None:
    pairs = DATA.edge_index.T.numpy()
    frame = pandas.DataFrame({"from": [f"n{a:03d}" for a, _ in pairs], "to": [f"n{b:03d}" for _, b in pairs]})
    expected = small().fit_transform((adjacency(), None))
    np.testing.assert_array_equal(small().fit_transform(DATA.edge_index), expected)
    with pytest.warns(ProgclWarning, match=r"whole numbers \[1846, 2\] are read as edges"):
        small().fit(pairs)
    model = small().set_output(transform="pandas").fit(frame)
    assert sorted(model.ids_) == [f"n{node:03d}" for node in range(200)]
    table = model.transform(frame)
    assert table.index.tolist() == model.ids_.tolist()
    assert table.columns.tolist() == model.get_feature_names_out().tolist()
    assert table.columns[0] == "progcl0"
    np.testing.assert_allclose(table.to_numpy(), model.embedding_, atol=1e-6)
    assert any("no features given" in remark for remark in model.remarks_)


def test_what_may_be_meant_otherwise_is_a_warning() -> None:
    ring = networkx.cycle_graph(12)
    networkx.set_edge_attributes(ring, {edge: 1.0 + edge[0] for edge in ring.edges}, "weight")
    with pytest.warns(ProgclWarning, match=r'`weight` is not used: ProGCL\(weight="NAME"\)'):
        small(epochs=1).fit(ring)
    with pytest.warns(ProgclWarning, match=r"is read as features: to have edges, give \(matrix, None\)"):
        small(epochs=1).fit(networkx.to_numpy_array(ring, weight=None))


def test_a_pair_of_files(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("".join(f"n{node},n{(node + 1) % 12}\n" for node in range(12)))
    (tmp_path / "x.csv").write_text("id,a\n" + "".join(f"n{node},{node}\n" for node in range(12)))
    model = small(epochs=1).fit((tmp_path / "g.csv", tmp_path / "x.csv"))
    assert (model.ids_.tolist(), model.n_features_in_) == ([f"n{node}" for node in range(12)], 1)


def test_a_table_of_features_is_read_alike_again() -> None:
    pairs = DATA.edge_index.T.numpy()
    edges = pandas.DataFrame({"source": pairs[:, 0], "target": pairs[:, 1]})
    features = pandas.DataFrame(DATA.x.numpy() * [1, 1000, 1, 1, 1, 1, 1, 1], index=range(1, 201)).reset_index(
        drop=True
    )
    features["kind"] = ["abc"[kind] for kind in DATA.y]
    model = small().fit((edges, features.assign(id=range(200))))
    assert model.n_features_in_ == 8 + 3
    later = features.iloc[:150].assign(kind="a", id=range(150))
    inside = edges[(edges < 150).all(axis=1)]
    assert model.transform((inside, later)).shape == (150, model.embedding_.shape[1])


def test_a_fitted_model_has_its_attributes() -> None:
    options: dict[str, Any] = {"epochs": 12, "miner": "progcl-weight", "with_features": False, "hidden": 16}
    options["options"] = {"train.lr": 0.02}
    model = small(**options).fit(DATA)
    assert model.embedding_.shape == (200, 32)  # as learned, and smoothed
    assert model.embedding_.dtype == np.float32
    assert len(model.loss_curve_) == 12
    assert model.loss_curve_[1] < model.loss_curve_[0]
    assert model.choice_ is None
    assert model.mixture_ is not None
    assert set(model.mixture_) >= {"alpha", "beta", "weight", "degenerate"}
    assert model.n_features_in_ == 8
    np.testing.assert_array_equal(model.fit_transform(DATA), small(**options).fit(DATA).embedding_)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(DATA), model.transform(DATA))
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(hidden=4).fit(DATA).embedding_.shape == (200, 8)


def test_blocks_are_chosen_by_links_kept_from_training() -> None:
    model = small(epochs=60).fit(DATA)
    assert model.choice_ is not None
    assert set(model.choice_["auc"]) == {"learned", "features", "own"}
    assert model.choice_["blocks"] == "learned"
    powers = 3 if model.choice_["weight"] >= 0.5 else 5  # of 8 features
    assert model.embedding_.shape == (200, 16 + 8 * powers + 128)
    assert small(dim=5).fit_transform(DATA).shape == (200, 5)


@pytest.mark.parametrize("encoder", ["svd", "hops", "gcn", "sage", "mlp"])
@pytest.mark.parametrize("with_features", [False, True])
def test_new_graphs_are_embedded_by_the_same_encoder(encoder: str, with_features: bool) -> None:
    other = csbm(nodes=120, classes=3, degree=10, features=8, signal=2.5, seed=1)
    model = small(encoder=encoder, with_features=with_features, options={"output.blocks": "learned"}).fit(DATA)
    np.testing.assert_allclose(model.transform(DATA), model.embedding_, atol=1e-6)
    with pytest.warns(ProgclWarning, match="no walk vectors") if with_features else nullcontext():
        vectors = model.transform(other)
    assert vectors.shape == (120, 16 + (24 + 128 if with_features else 0))
    assert not vectors[:, 16 + 24 :].any()  # its numbers name other nodes
    assert not np.allclose(vectors[:10], model.embedding_[:10])


def test_pipelines_and_cross_validation() -> None:
    rows, kinds = load_digits(return_X_y=True)
    rows, kinds = rows[:400], kinds[:400]
    vectors = small(epochs=20, hidden=32).fit_transform(rows)
    assert cross_val_score(LogisticRegression(max_iter=2000), vectors, kinds, cv=3).mean() > 0.8
    line = make_pipeline(small(epochs=20, hidden=32), StandardScaler(), LogisticRegression(max_iter=2000))
    assert line.fit(DATA, DATA.y.numpy()).score(DATA, DATA.y.numpy()) > 0.8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Data(x=torch.ones(3, 2), edge_index=torch.zeros(2, 0, dtype=torch.long)), "no edges"),
        (Data(x=torch.full((3, 2), torch.nan), edge_index=torch.tensor([[0], [1]])), "NaN"),
        ((np.ones((3, 2)), np.ones((3, 2))), "square"),
        ((np.ones((3, 3)), np.ones((4, 2))), "4 rows of features for 3 nodes"),
        (pandas.DataFrame({"one": ["a", "b"], "two": ["b", "c"], "since": [1, 2]}), r"give \(table, None\)"),
        (HeteroData(), "to_homogeneous"),
    ],
)
def test_bad_graphs_are_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        small().fit(given)


def test_a_graph_with_other_features_is_refused() -> None:
    model = small().fit(DATA)
    with pytest.raises(InputError, match="7 features, not 8 as before"):
        model.transform((adjacency(), DATA.x[:, :7]))
    with pytest.raises(InputError, match="only the graph"):
        small(encoder="gcn", options={"method.name": "merit"}).fit(DATA)
