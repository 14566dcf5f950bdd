"""ProGCL in batches: the snapshot by node, one mixture for all or one for each batch, against loops."""

import pytest
import torch
from torch import Tensor

from progcl import InfoNCE, InputError, ProGCLMix, ProGCLWeight
from progcl.miners.frozen import FrozenPosterior
from progcl.posteriors.beta import BetaMixture
from progcl.testing import toy_views
from support.naive import (
    cosines,
    hardest,
    infonce,
    loss,
    min_max,
    mixed_vectors,
    normalize_sims,
    p_true,
    progcl_weights,
    transposed,
)

N, D, TAU, E = 90, 6, 0.4, 2
BATCHES = torch.randperm(N, generator=torch.Generator().manual_seed(0)).split(30)


def views(epoch: int) -> tuple[Tensor, Tensor]:
    return toy_views(N, D, seed=epoch)


def batch(nodes: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
    h1, h2 = views(epoch)
    return h1[nodes], h2[nodes]


def trained(miner: FrozenPosterior, epochs: int, batches: tuple[Tensor, ...] = BATCHES) -> InfoNCE:
    """A loss after these epochs of batches."""
    criterion = InfoNCE(TAU, miner)
    for epoch in range(1, epochs + 1):
        criterion.set_epoch(epoch)
        for nodes in batches:
            criterion(*batch(nodes, epoch), nodes=nodes)
    return criterion


def weighted(miner: FrozenPosterior, nodes: Tensor, epoch: int) -> float:
    """Eq. 10-12 on a batch: p from the similarities of epoch E, s from the present ones."""
    assert isinstance(miner.estimator, BetaMixture)
    low, high = miner.bounds.tolist()
    then = normalize_sims(cosines(*batch(nodes, E)), low, high)
    p = [[p_true(miner.estimator, value) for value in row] for row in then]
    h1, h2 = batch(nodes, epoch)
    s = normalize_sims(cosines(h1, h2), low, high)
    weights = [progcl_weights(p, s), progcl_weights(transposed(p), transposed(s))]
    return loss(h1, h2, TAU, weights, [[[]] * len(nodes)] * 2)


def test_one_mixture_serves_any_batches_after_epoch_e() -> None:
    criterion = trained(ProGCLWeight(start_epoch=E), E)
    miner = criterion.miner
    assert isinstance(miner, FrozenPosterior)
    assert not miner.active  # epoch E collects
    criterion.set_epoch(E + 1)
    other = torch.randperm(N, generator=torch.Generator().manual_seed(1))[:12]
    value = criterion(*batch(other, E + 1), nodes=other).item()
    assert miner.active
    assert value == pytest.approx(weighted(miner, other, E + 1), rel=1e-9)
    assert value != pytest.approx(infonce(*batch(other, E + 1), TAU), rel=1e-3)
    z = [torch.nn.functional.normalize(h, dim=1) for h in views(E)]
    torch.testing.assert_close(miner.snapshot[:, :N], torch.stack(z).detach())
    sims = torch.tensor(cosines(*views(E)), dtype=torch.float64)
    assert sims.min() - 1e-12 <= miner.bounds[0] < miner.bounds[1] <= sims.fill_diagonal_(-1).max() + 1e-12


@pytest.mark.parametrize("per_batch", [False, True])
def test_mixing_in_a_batch_is_equations_13_to_16(per_batch: bool) -> None:
    miner = ProGCLMix(start_epoch=E, hardest=7, synthetic=9, per_batch=per_batch)
    criterion = trained(miner, E)
    criterion.set_epoch(E + 1)
    nodes = BATCHES[1]
    h1, h2 = batch(nodes, E + 1)
    value = criterion(h1, h2, nodes=nodes).item()
    assert isinstance(miner.estimator, BetaMixture)
    then = normalize_sims(cosines(*batch(nodes, E)), *miner.bounds.tolist())
    p = [[p_true(miner.estimator, s) for s in row] for row in then]
    order = nodes.argsort().tolist()  # ranks count in the order of the nodes' numbers

    def extras(own: Tensor, other: Tensor, p: list[list[float]], s: list[list[float]]) -> list[list[float]]:
        lists = [sorted(row, key=lambda k: order.index(k)) for row in hardest(p, s, 7)]
        return mixed_vectors(own, torch.nn.functional.normalize(other, dim=1), p, lists, miner.pairs.tolist())

    both = [extras(h1, h2, p, then), extras(h2, h1, transposed(p), transposed(then))]
    ones = [[[1.0] * len(nodes)] * len(nodes)] * 2
    assert value == pytest.approx(loss(h1, h2, TAU, ones, both), rel=1e-9)
    assert value != pytest.approx(infonce(h1, h2, TAU), rel=1e-3)


def test_algorithm_2_fits_every_batch_and_mines_at_once() -> None:
    miner = ProGCLWeight(start_epoch=E, per_batch=True)
    criterion = trained(miner, E - 1)
    for epoch in (E, E + 1):
        criterion.set_epoch(epoch)
        for nodes in BATCHES:
            value = criterion(*batch(nodes, epoch), nodes=nodes).item()
            assert miner.bounds.tolist() == pytest.approx(min_max(cosines(*batch(nodes, E))))
            assert value == pytest.approx(weighted(miner, nodes, epoch), rel=1e-9)
    assert len(miner.source.fits) == len(BATCHES) == len(miner.source.fits.unique(dim=0))
    with pytest.raises(InputError, match="same batches"):
        criterion(*batch(torch.arange(30), E), nodes=torch.arange(30))
    beyond = torch.cat([BATCHES[0][:15], torch.arange(N, N + 15)])
    with pytest.raises(InputError, match="same batches"):
        criterion(*toy_views(30, D, seed=0), nodes=beyond)


@pytest.mark.parametrize("per_batch", [False, True])
@pytest.mark.parametrize("kind", [ProGCLWeight, ProGCLMix])
def test_a_checkpoint_of_batches_resumes_exactly(kind: type[FrozenPosterior], per_batch: bool) -> None:
    for epochs in (E, E + 1):  # while the snapshot is collected, and after the fit
        criterion = trained(kind(start_epoch=E, per_batch=per_batch), epochs)
        other = InfoNCE(TAU, kind(start_epoch=E, per_batch=per_batch))
        other.load_state_dict(criterion.state_dict())
        for epoch in (epochs + 1, epochs + 2):
            for module in (criterion, other):
                module.set_epoch(epoch)
            for nodes in BATCHES:
                values = [module(*batch(nodes, epoch), nodes=nodes).item() for module in (criterion, other)]
                assert values[0] == values[1]


def test_a_node_absent_from_epoch_e_is_recorded_when_it_first_occurs() -> None:
    miner = ProGCLWeight(start_epoch=E)
    criterion = trained(miner, E, BATCHES[:2])
    late = BATCHES[2]
    for epoch in (E + 1, E + 2):
        criterion.set_epoch(epoch)
        criterion(*batch(late, epoch), nodes=late)
    first = torch.stack(batch(late, E + 1)).detach()
    torch.testing.assert_close(miner.snapshot[:, late], torch.nn.functional.normalize(first, dim=2))
    assert set(miner.known_nodes.tolist()) == set(range(N))


@pytest.mark.parametrize("per_batch", [False, True])
def test_released_similarities_are_halves_of_cosines_plus_one(per_batch: bool) -> None:
    """(cos+1)/2 before and after the fit, whatever the range of the batch."""
    miner = ProGCLWeight(start_epoch=E, variant="released", per_batch=per_batch)
    cosine = torch.tensor([-1.0, 0.0, 0.5, 1.0])
    for epochs in (E - 1, E + 1):
        trained(miner, epochs)
        assert miner.active == (epochs > E)
        torch.testing.assert_close(miner.normalize(cosine), torch.tensor([0.0, 0.5, 0.75, 1.0]))


def test_equal_similarities_have_no_range() -> None:
    """Min-Max normalization is not defined where all are equal: they are given up, and the loss stays InfoNCE."""
    h, miner = torch.ones(12, D, dtype=torch.float64), ProGCLWeight(start_epoch=1)
    criterion = InfoNCE(TAU, miner)
    criterion.set_epoch(1)
    with pytest.warns(UserWarning, match="all equal"):
        value = criterion(h, h).item()
    assert (miner.is_fitted, miner.active, miner.bounds.tolist()) == (True, False, [-1.0, 1.0])
    assert value == pytest.approx(infonce(h, h, TAU), rel=1e-12)
