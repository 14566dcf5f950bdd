"""Blocks chosen without labels: areas under the ROC curve, and what follows from them."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.nn.functional import normalize

from progcl import fit, load_config
from progcl.config.output import HopsConfig
from progcl.data.prepare import prepare
from progcl.data.synthetic import csbm
from progcl.embed import choose_settings
from progcl.graph.hop_features import HopFeatures, project, stack_hops
from progcl.result import Result
from progcl.training import choice as choice_module
from progcl.training.choice import Choice, describe_choice, link_auc, nearest_hits, weights_of, without_edges
from progcl.training.output import describe_facts


@pytest.mark.parametrize(
    ("learned", "features", "own", "nearest", "blocks", "weight"),
    [
        (0.95, 0.95, 0.80, 0.2, "learned", 1.0),
        (0.97, 0.95, 0.80, 0.2, "learned", 1.0),
        (0.9, 0.9878, 0.97, 0.4, "learned", 0.25),  # log-odds log 9 and log 81
        (0.67, 0.66, 0.665, 0.1, "learned", 1.0),
        (0.6, 0.9, 0.58, 0.1, "untrained", 0.0),  # weight 0.03: weak features
        (0.45, 0.9, 0.58, 0.1, "untrained", 0.0),
        (0.99, 0.99, 0.993, 0.5, "untrained", 0.0),  # nearest neighbors: the features say it all
        (0.60, 0.51, 0.50, 0.0, "own", 0.0),  # heterophilous
        (0.49, 0.40, 0.50, 0.0, "untrained", 0.0),  # so much so that hops tell the classes
    ],
)
def test_the_rule(learned: float, features: float, own: float, nearest: float, blocks: str, weight: float) -> None:
    choice = Choice(learned, features, own, nearest)
    assert choice.blocks == blocks
    assert choice.facts()["weight"] == pytest.approx(weight, abs=1e-3)
    sentence = describe_choice(choice.facts())
    assert ("did not earn" in sentence) == (blocks == "untrained")
    assert ("links follow from the features, 50%" in sentence) == (nearest >= 0.5)
    assert f"learned {learned:.3f}" in sentence


def test_opposing_links_are_told_from_chance() -> None:
    """Standard errors of hops' AUC are 0.017, 0.041, and, since at most 20,000 links are asked, 0.003."""
    for links, own, blocks in ((600, 0.45, "untrained"), (100, 0.45, "own"), (10**6, 0.405, "own")):
        assert Choice(0.5, 0.40, own, links=links).blocks == blocks


def test_hits_are_those_of_a_loop() -> None:
    data = csbm(nodes=120, classes=3, features=6)
    heldout = data.edge_index[:, data.edge_index[0] < data.edge_index[1]][:, ::5]
    seen = without_edges(data, heldout).edge_index
    unit, hits = normalize(data.x.double(), dim=1), 0
    for source, target in heldout.T.tolist():
        left_out = {source, *seen[1][seen[0] == source].tolist()}
        ranking = (unit @ unit[source]).argsort(descending=True).tolist()
        hits += target in [node for node in ranking if node not in left_out][:10]
    assert 0 < hits < heldout.size(1) <= choice_module.MAX_RANKED
    assert nearest_hits(data.x.double(), heldout, seen) == hits / heldout.size(1)
    assert nearest_hits(torch.ones(120, 2), heldout, seen) == 0  # all are equally near


def test_features_that_are_all_the_same_are_never_all_there_is() -> None:
    assert Choice(0.5, 0.5, 0.5, varies=False).blocks == "untrained"
    data = prepare(csbm(nodes=400, degree=10))
    data.x = torch.full((400, 1), 3.0) + torch.rand(400, 1)
    heldout = data.edge_index[:, ::9]
    choice = Choice.judge(torch.zeros(400, 2), data, heldout, HopFeatures.fit(data, HopsConfig()))
    assert not choice.varies
    assert choice.own == 0.5


def test_links_are_told_from_random_pairs_by_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice_module, "MAX_PAIRS", 10**6)
    data = csbm(nodes=200, classes=2, homophily=0.95, features=4, signal=4)
    unit = normalize(data.x, dim=1).double().numpy()
    links = {(int(a), int(b)) for a, b in data.edge_index.T.tolist()}
    pairs = [(a, b) for a in range(200) for b in range(200)]
    exact = roc_auc_score(
        [True] * len(links) + [False] * len(pairs), [float(np.dot(unit[a], unit[b])) for a, b in [*links, *pairs]]
    )
    assert link_auc(data.x, data.edge_index) == pytest.approx(exact, abs=0.02)
    assert link_auc(data.x, data.edge_index) == link_auc(data.x, data.edge_index)


def test_features_are_judged_without_the_held_out_edges() -> None:
    data = csbm(nodes=300, classes=3, homophily=0.9)
    heldout = data.edge_index[:, data.edge_index[0] < data.edge_index[1]][:, ::7]
    features = HopFeatures.fit(data, HopsConfig(rank=16, dim=None))
    choice = Choice.judge(data.x, data, heldout, features)
    seen = data.clone()
    kept = {(a, b) for a, b in data.edge_index.T.tolist()} - {(a, b) for a, b in heldout.T.tolist()}
    kept -= {(b, a) for a, b in heldout.T.tolist()}
    seen.edge_index = torch.tensor(sorted(kept)).T
    assert torch.equal(without_edges(data, heldout).edge_index, seen.edge_index)
    own = project(data.x, features.directions)
    vectors = {"learned": data.x, "features": stack_hops(own, seen, features.hops), "own": own}
    for name, each in vectors.items():
        assert getattr(choice, name) == link_auc(each - each.mean(dim=0), heldout), name


def run(homophily: float, signal: float, **changes: float) -> Result:
    data = prepare(csbm(nodes=900, classes=3, features=32, signal=signal, homophily=homophily, degree=12))
    overrides = {"encoder.hidden": 64, "encoder.projection": 32, "probe.protocol": "none", "train.epochs": 60}
    overrides |= {key.replace("__", "."): value for key, value in changes.items()}
    return fit(load_config("embed", choose_settings(data, overrides)), data=data)


def test_strong_features_are_learned_from_and_links_between_unlike_nodes_are_not_used() -> None:
    learned, own = run(homophily=0.8, signal=3, train__lr=3e-3), run(homophily=0.05, signal=2)
    assert learned.facts["choice"]["blocks"] == "learned"
    assert learned.facts["blocks"] == ["learned", "smoothed once", "features of several hops", "walk vectors"]
    assert learned.facts["learned columns"] == 2 * learned.config.encoder.hidden
    weight = learned.facts["choice"]["weight"]
    assert 0.5 < weight <= 1
    assert learned.embeddings.shape == (900, 2 * 64 + 3 * 32 + 128)
    blocks = learned.embeddings.split([64, 64, 96, 128], dim=1)
    for block, length in zip(blocks, (weight, weight, 1, 1 - weight / 2), strict=True):
        torch.testing.assert_close(block.norm(dim=1), torch.full((900,), float(length)), atol=1e-3, rtol=0)
    assert own.facts["choice"]["blocks"] == "own"
    assert own.facts["blocks"] == ["own features"]
    assert own.facts["learned columns"] == 0
    assert own.embeddings.shape == (900, 32)


def test_without_features_nothing_is_trained() -> None:
    data = csbm(nodes=400)
    bare = prepare(data.__class__(edge_index=data.edge_index, num_nodes=400))
    overrides = {"encoder.hidden": 8, "probe.protocol": "none", "train.epochs": 2}
    result = fit(load_config("embed", choose_settings(bare, overrides)), data=bare)
    assert "choice" not in result.facts
    (sentence,) = describe_facts(result.facts)
    assert sentence.startswith("nothing is trained: there are no features to learn from")
    assert result.losses == []
    assert result.facts["blocks"] == ["features of several hops"]


def test_weights_of_links_are_those_of_the_edges() -> None:
    data = prepare(csbm(nodes=60, degree=6))
    assert weights_of(data, data.edge_index[:, :5]) is None
    data.edge_weight = torch.rand(data.num_edges, generator=torch.Generator().manual_seed(0))
    by_pair = dict(zip(map(tuple, data.edge_index.T.tolist()), data.edge_weight.tolist(), strict=True))
    links = data.edge_index[:, torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(1))[:20]]
    found = weights_of(data, links)
    assert found is not None
    assert found.tolist() == [by_pair[tuple(pair)] for pair in links.T.tolist()]
