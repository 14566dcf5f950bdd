"""Snapshots by themselves: what is recorded, when a fit is made, and what a move or cast of the module leaves alone."""

import pytest
import torch
from torch import Tensor

from progcl import InfoNCE, InputError, ProGCLWeight
from progcl.miners.snapshots import CollectedByNode, PerBatch, Snapshot, WholeGraph
from progcl.testing import toy_views


class Recorder:
    """A fit function that records the number of nodes and the kind of range it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, bool]] = []

    def __call__(self, own: Tensor, other: Tensor, exact_range: bool) -> Tensor:
        self.calls.append((len(own), exact_range))
        return torch.tensor([0, 1, len(self.calls)], dtype=torch.float64)


def update(snapshot: Snapshot, nodes: Tensor, epoch: int, fit: Recorder) -> int | None:
    rows = nodes[:, None] + torch.tensor([0.0, 100.0 * epoch])
    return snapshot.update(rows, -rows, nodes, epoch, fit)


def test_the_whole_graph_is_fitted_once() -> None:
    snapshot, fit = WholeGraph(), Recorder()
    for epoch in (3, 4):
        assert update(snapshot, torch.arange(5), epoch, fit) == 0
    assert fit.calls == [(5, True)]
    assert snapshot.vectors[1, :, 1].tolist() == [-node - 300 for node in range(5)]
    assert snapshot.nodes.tolist() == list(range(5))


def test_nodes_are_collected_in_one_epoch_and_fitted_in_the_next() -> None:
    snapshot, fit = CollectedByNode(), Recorder()
    assert snapshot.nodes.tolist() == []
    assert update(snapshot, torch.tensor([4, 1]), 3, fit) is None
    assert update(snapshot, torch.tensor([7, 0]), 3, fit) is None
    assert not fit.calls
    assert update(snapshot, torch.tensor([1, 9]), 4, fit) == 0
    assert update(snapshot, torch.tensor([1, 9]), 5, fit) == 0
    assert fit.calls == [(4, False)]  # node 9 came too late
    assert snapshot.nodes.tolist() == [0, 1, 4, 7, 9]
    assert snapshot.vectors[0, [1, 9], 1].tolist() == [1 + 300, 9 + 400]  # as they were at first


def test_batches_are_fitted_one_by_one() -> None:
    snapshot, fit = PerBatch(), Recorder()
    batches = torch.tensor([4, 1]), torch.tensor([7, 0, 2])
    for epoch in (3, 4):
        assert [update(snapshot, nodes, epoch, fit) for nodes in batches] == [0, 1]
    assert fit.calls == [(2, True), (3, True)]
    assert snapshot.fits[:, 2].tolist() == [1, 2]
    for mixed in ([4, 7], [4, 9], [9, 4]):
        with pytest.raises(InputError, match="same batches"):
            update(snapshot, torch.tensor(mixed), 5, fit)


@pytest.mark.parametrize("kind", [WholeGraph, CollectedByNode, PerBatch])
def test_a_state_of_any_size_is_restored(kind: type[Snapshot]) -> None:
    snapshot, fit, copy = kind(), Recorder(), kind()
    for epoch in (3, 4):
        update(snapshot, torch.arange(5), epoch, fit)
    copy.load_state_dict(snapshot.state_dict())
    assert torch.equal(copy.fits, snapshot.fits)
    assert torch.equal(copy.vectors, snapshot.vectors)
    assert update(copy, torch.arange(5), 5, fit) == 0
    assert len(fit.calls) == 1


@pytest.mark.parametrize("kind", [CollectedByNode, PerBatch])
def test_a_checkpoint_holds_the_recorded_nodes_alone(kind: type[Snapshot]) -> None:
    """On a large graph most nodes are never drawn; a resumed snapshot goes on like the one that was saved."""
    snapshot, fit, copy = kind(), Recorder(), kind()
    update(snapshot, torch.tensor([4, 1, 900]), 3, fit)
    update(snapshot, torch.tensor([7, 0, 20]), 3, fit)
    state = snapshot.state_dict()
    assert state["vectors"].shape == (2, 6, 2)
    assert len(state["mark"]) == 901
    assert snapshot.vectors.size(1) >= 901
    copy.load_state_dict(state)
    assert copy.nodes.tolist() == [0, 1, 4, 7, 20, 900]
    for nodes in ([4, 1, 900], [1000, 1001]):
        assert update(copy, torch.tensor(nodes), 4, fit) == update(snapshot, torch.tensor(nodes), 4, fit)
    assert copy.nodes.tolist() == snapshot.nodes.tolist()
    assert torch.equal(copy.vectors[:, copy.nodes], snapshot.vectors[:, copy.nodes])
    copy.load_state_dict({**state, "vectors": snapshot.vectors[:, :901]})  # as older versions wrote it
    assert copy.nodes.tolist() == [0, 1, 4, 7, 20, 900]
    assert torch.equal(copy.vectors, snapshot.vectors[:, :901])


def test_a_cast_leaves_the_fit_exact() -> None:
    """Else `loss.float()` would change bounds and mixture."""
    miner = ProGCLWeight(start_epoch=1)
    criterion = InfoNCE(0.4, miner)
    criterion.set_epoch(1)
    criterion(*toy_views(30, 6, seed=0))
    before = miner.fitted.clone(), miner.bounds.clone()
    criterion.float()
    assert miner.snapshot.dtype == torch.float32
    assert torch.equal(miner.fitted, before[0])
    assert torch.equal(miner.bounds, before[1])
