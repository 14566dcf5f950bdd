"""MERIT against its formula, and the network that follows."""

import copy
from typing import Any

import pytest
import torch

from progcl import InputError, load_config
from progcl.data.synthetic import csbm
from progcl.graph.views import Graph, View
from progcl.methods.merit import Merit
from progcl.miners import MINERS
from progcl.miners.progcl import ProGCLWeight
from progcl.training.trainer import Trainer
from support.naive import cosine, infonce

SMALL: dict[str, Any] = {
    "data.nodes": 60,
    "data.degree": 10,
    "data.homophily": 0.95,
    "data.signal": 3,
    "method.name": "merit",
    "method.drop_edges": [0.0, 0.0],
    "method.drop_features": [0.0, 0.0],
    "method.strongest": 8,
    "method.add_edges": 0.0,
    "encoder.hidden": 8,
    "loss.tau": 1.0,
    "miner.name": "none",
    "probe.protocol": "none",
}
DATA = csbm(nodes=60, degree=10, homophily=0.95, signal=3)


def build(**changes: Any) -> tuple[Trainer, Merit]:
    options = {**SMALL, **{key.replace("__", "."): value for key, value in changes.items()}}
    training = Trainer(load_config("csbm", options, strict=False), DATA)
    assert isinstance(training.method, Merit)
    return training, training.method


@pytest.mark.parametrize("balance", [0.0, 0.3, 1.0])
def test_the_loss_is_its_formula(balance: float) -> None:
    _, method = build(method__balance=balance)
    method.double()
    graph = Graph(DATA)
    graph.features = DATA.x.double()
    method.links = (method.links[0], method.links[1].double())
    views = View(graph), View(graph.with_edges(*method.links))
    original = vars(View)["symmetric"].func

    def double(view: View) -> Any:  # the normalized adjacency is made in single precision
        sparse = original(view)
        return type(sparse)(*(matrix.double() for matrix in sparse))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(View, "symmetric", property(double))
        value = method.loss(graph).item()
        h1, h2 = (method.predictor(method.projector(method.encoder(each))).detach() for each in views)
        t1, t2 = (method.target(each) for each in views)
    between = 0.0
    for online, target in ((h1, t2), (h2, t1)):
        sims = torch.tensor([[cosine(a, b) for b in target] for a in online], dtype=torch.float64)
        between += (sims.logsumexp(dim=1) - sims.diagonal()).mean().item() / 2
    assert value == pytest.approx(balance * infonce(h1, h2, 1.0) + (1 - balance) * between, rel=1e-9)


def test_the_target_is_a_moving_average_without_gradient() -> None:
    training, method = build(method__momentum=0.75)
    before = copy.deepcopy(method.target.state_dict())
    next(training.run(1))
    names = [name for name, _ in method.target.named_parameters()]
    pair = torch.nn.ModuleList([method.encoder, method.projector])
    online = {f"network.{name}": value for name, value in pair.state_dict().items()}
    for name in names:
        expected = 0.75 * before[name] + 0.25 * online[name]
        torch.testing.assert_close(method.target.state_dict()[name], expected)
    assert any(not torch.equal(before[name], online[name]) for name in names)
    assert not any(each.requires_grad for each in method.target.parameters())


def test_views_drop_and_add_edges() -> None:
    training, method = build(method__drop_edges=[0.5, 0.4], method__add_edges=0.25)
    graph = training.graph
    assert isinstance(graph, Graph)
    first, second = method.views(graph)
    assert first.extra_edges is not None
    assert first.extra_edges.size(1) == round(0.25 * graph.num_edges)
    assert first.edge_mask is not None
    assert second.edge_mask is not None
    assert 0.35 < first.edge_mask.float().mean() < 0.65
    assert 0.45 < second.edge_mask.float().mean() < 0.75
    assert second.graph.is_normalized
    assert second.graph.features is graph.features


@pytest.mark.parametrize(("mined", "views", "networks"), [("both", 1, 2), ("views", 1, 0), ("networks", 0, 2)])
def test_option_mined_chooses_which_negatives_are_mined(mined: str, views: int, networks: int) -> None:
    _, method = build(method__mined=mined, miner__name="progcl-weight")
    assert isinstance(method.criterion.miner, ProGCLWeight) == bool(views)
    assert sum(isinstance(each.miner, ProGCLWeight) for each in method.between_networks) == networks


def test_each_set_of_negatives_has_a_mixture_of_its_own() -> None:
    training, method = build(miner__name="progcl-weight", miner__start_epoch=2, train__epochs=3)
    list(training.run(3))
    miners = [module for module in method.modules() if isinstance(module, ProGCLWeight)]
    fits = {tuple(miner.fitted.tolist()) for miner in miners}
    assert all(fits)
    assert len(fits) == len(miners) == 3


def test_every_miner_treats_the_negatives_of_merit() -> None:
    """From its start on, the loss is another one than without a miner."""
    for miner in MINERS:
        _, method = build(miner__name=miner, miner__start_epoch=1, miner__hardest=9)
        method.set_epoch(1)
        plain = build()[1]
        losses = [each.loss(Graph(DATA)).item() for each in (method, plain)]
        assert (losses[0] == pytest.approx(losses[1], rel=1e-6)) == (miner == "none"), miner


def test_a_window_has_its_own_edges_and_its_share_of_the_diffusion() -> None:
    _, method = build(method__windows=4, method__window=25, method__threshold=0.01)
    windows = list(method.batches(1))
    assert len(windows) == method.steps == 4
    starts = set()
    for window in windows:
        assert isinstance(window, Graph)
        assert window.seeds is not None
        start = int(window.seeds[0])
        starts.add(start)
        assert torch.equal(window.seeds, torch.arange(start, start + 25))
        assert 0 <= start <= 35
        expected = {
            (int(a) - start, int(b) - start)
            for a, b in DATA.edge_index.T
            if {int(a), int(b)} <= set(range(start, start + 25))
        }
        assert {(int(a), int(b)) for a, b in window.data.edge_index.T} == expected
        assert torch.equal(window.data.x, DATA.x[window.seeds])
        diffused = View(method.diffusion(window)).symmetric.csr.to_dense()
        whole = View(method.diffusion(Graph(DATA))).symmetric.csr.to_dense()
        assert torch.equal(diffused, whole[start : start + 25, start : start + 25])
    assert len(starts) > 1


def test_a_window_of_all_nodes_is_the_whole_graph() -> None:
    (graph,) = build(method__windows=1, method__window=60)[1].batches(1)
    assert graph.seeds is None
    assert [batch.seeds for batch in build()[1].batches(1)] == [None]


@pytest.mark.parametrize("miner", MINERS)
def test_every_miner_trains_on_windows_and_resumes(miner: str) -> None:
    options: dict[str, Any] = {
        "method__windows": 3,
        "method__window": 30,
        "miner__name": miner,
        "miner__start_epoch": 1,
    }
    whole, part, rest = (build(**options, miner__hardest=9, train__epochs=4)[0] for _ in range(3))
    losses = [record.loss for record in whole.run(4)]
    list(part.run(2))
    rest.restore(part.state())
    assert [record.loss for record in rest.run(4)] == losses[2:]
    assert torch.equal(rest.embed(), whole.embed())


def test_windows_have_no_anchors() -> None:
    with pytest.raises(InputError, match="window is contrasted as a whole"):
        build(method__windows=2, train__anchors=10)
