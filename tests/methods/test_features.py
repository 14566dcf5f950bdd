import torch

from progcl.data.synthetic import csbm
from progcl.graph.views import Graph, View
from progcl.methods.features import hop_features, propagated, raw

DATA = csbm(nodes=60, features=20)


def test_raw_features_are_unchanged() -> None:
    assert raw(DATA) is DATA.x


def test_propagated_features_are_two_steps_of_message_passing() -> None:
    dense = View(Graph(DATA)).symmetric.csr.to_dense()
    torch.testing.assert_close(propagated(DATA), dense @ dense @ DATA.x)


def test_wide_features_are_reduced_first() -> None:
    reduced = propagated(DATA, rank=5, hops=0)
    assert reduced.shape == (60, 5)
    best = torch.linalg.svdvals(DATA.x)[:5]
    torch.testing.assert_close(torch.linalg.svdvals(reduced), best, rtol=1e-3, atol=1e-3)


def test_hops_side_by_side_end_with_the_propagated_features() -> None:
    rows = hop_features(DATA, hops=[0, 1, 2])
    columns = DATA.x.size(1)
    unit = torch.nn.functional.normalize
    scaled = DATA.clone()
    scaled.x = unit(DATA.x, dim=1)
    torch.testing.assert_close(rows[:, :columns], scaled.x)
    torch.testing.assert_close(rows[:, 2 * columns :], unit(propagated(scaled), dim=1))
