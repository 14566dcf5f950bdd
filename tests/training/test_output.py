"""From learned vectors to embeddings: smoothing, features, reduction."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from progcl import InputError, fit, load_config
from progcl.config.output import OutputConfig
from progcl.data.synthetic import csbm
from progcl.errors import ProgclWarning
from progcl.graph.hop_features import HopFeatures
from progcl.graph.views import Graph, View
from progcl.training.output import describe_facts
from progcl.training.trainer import Trainer

DATA = csbm(nodes=120, classes=3, features=12, signal=2)
SMALL: dict[str, Any] = {
    "encoder.hidden": 6,
    "miner.name": "none",
    "train.epochs": 3,
    "probe.protocol": "none",
    "hops.dim": 10,
}


def embed(**output: Any) -> torch.Tensor:
    overrides = {**SMALL, **{f"output.{name}": value for name, value in output.items()}}
    return fit(load_config("csbm", overrides), data=DATA).embeddings


def test_blocks_are_smoothed_and_normalized_vectors_beside_features() -> None:
    learned = embed()
    centered = learned - learned.mean(dim=0)
    dense = View(Graph(DATA)).symmetric.csr.to_dense()
    smoothed = [normalize(centered, dim=1), normalize(dense @ dense @ centered, dim=1)]
    hops = load_config("csbm", {**SMALL, "hops.powers": [1, 2, 4]}).hops  # those beside learned vectors
    features = normalize(HopFeatures.fit(DATA, hops).transform(DATA), dim=1)
    torch.testing.assert_close(embed(smooth=[0, 2]), torch.cat(smoothed, dim=1))
    torch.testing.assert_close(embed(smooth=[0, 2], features=True), torch.cat([*smoothed, features], dim=1))
    torch.testing.assert_close(embed(features=True), torch.cat([normalize(learned, dim=1), features], dim=1))


def test_reduction_keeps_the_leading_variance() -> None:
    blocks, reduced = embed(smooth=[0, 1]).numpy(), embed(smooth=[0, 1], dim=4).numpy()
    centered = blocks - blocks.mean(axis=0)
    values = np.linalg.svd(centered, compute_uv=False)
    np.testing.assert_allclose(np.linalg.svd(reduced, compute_uv=False), values[:4], rtol=1e-3)
    assert embed(smooth=[0, 1], dim=500).shape == (120, 12)  # there are no more


@pytest.mark.parametrize("encoder", ["gcn", "hops"])
@pytest.mark.parametrize("batched", [False, True])
def test_unseen_nodes_get_what_was_fitted_to_the_training_nodes(encoder: str, batched: bool) -> None:
    overrides = {**SMALL, "data.inductive": True, "output.smooth": [0, 1], "output.features": True, "output.dim": 5}
    overrides |= {"encoder.name": encoder, "method.drop_edges": [0.0, 0.0], "batch.size": 40 if batched else None}
    config = load_config("csbm", {**overrides, "batch.fanouts": [3, 3]})
    trainer = Trainer(config, DATA)
    list(trainer.run(1))
    assert trainer.embed().shape == (120, 5)
    fitted = trainer.output
    assert fitted.features is not None
    assert fitted.features.pca is not None
    assert fitted.features.pca.n_samples_ == 72  # three fifths


def test_the_report_of_what_a_reduction_costs() -> None:
    trainer = Trainer(load_config("csbm", {**SMALL, "output.smooth": [0], "output.dim": 3}), DATA)
    trainer.embed()
    cost = trainer.output.facts()["reduction"]
    assert (cost["from"], cost["to"]) == (6, 3)
    assert 0 < cost["variance"] < 1
    (sentence,) = describe_facts({"reduction": cost})
    assert sentence.startswith("6 numbers per node reduced to 3: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"smooth": [1, 0]}, "must rise"), ({"dim": 0}, "`dim`"), ({"blocks": "auto"}, "beside the learned")],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        OutputConfig(**options)


def test_walk_vectors_belong_to_one_graph() -> None:
    trainer = Trainer(load_config("csbm", {**SMALL, "output.structure": 9}), DATA)
    vectors = trainer.embed()
    assert vectors.shape == (120, 6 + 9)
    torch.testing.assert_close(vectors[:, 6:].norm(dim=1), torch.full((120,), 0.5))  # beside learned vectors
    with pytest.warns(ProgclWarning, match="no walk vectors"):
        other = trainer.output.apply(torch.ones(120, 6), csbm(nodes=120, seed=1))
    assert not other[:, 6:].any()
    with pytest.raises(InputError, match="unseen nodes"):
        load_config("csbm", {**SMALL, "output.structure": 9, "data.inductive": True})


@pytest.mark.parametrize(("blocks", "width"), [("learned", 6 + 6 + 10), ("untrained", 10), ("own", 10)])
def test_blocks_can_be_named(blocks: str, width: int) -> None:
    """The twelve features are reduced to ten components, as the hops are."""
    vectors = embed(blocks=blocks, smooth=[0, 1], features=True)
    assert vectors.shape == (120, width)
    if blocks == "own":
        assert not torch.equal(vectors, embed(blocks="untrained", features=True))
