"""What miners of synthetic negatives share: random draws, and cosines with vectors mixed from two candidates."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from progcl.miners.base import Miner

CACHED_PAIRS = 2**11  # pairs at a time, so that their vectors stay in the cache


class Seeded(Miner):
    """A miner with a random generator of its own, whose state goes into checkpoints.

    The generator is on the CPU, so that draws are the same on every device.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def get_extra_state(self) -> Tensor:
        """The random state, for checkpoints."""
        return self.generator.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the random state."""
        self.generator.set_state(state.cpu())


def draw_pairs(ranks: int, number: int, generator: torch.Generator) -> Tensor:
    """Pairs of two different ranks, the smaller first, [2, number]; of equal ones if there is only one rank."""
    first = torch.randint(0, ranks, (number,), generator=generator)
    other = torch.randint(1, max(ranks, 2), (number,), generator=generator)
    second = (first + other) % ranks
    return torch.stack([torch.minimum(first, second), torch.maximum(first, second)])


def inverse_length(squared: Tensor) -> Tensor:
    """1/√ of squared lengths of mixed vectors, bounded where opposite vectors cancel, as in `cancels`."""
    return squared.clamp_min(_least_squared(squared.dtype)).rsqrt_()


def cancels(squared: Tensor) -> Tensor:
    """Whether squared lengths of mixed vectors are 0 up to rounding, so that their cosines have no gradient."""
    return squared < _least_squared(squared.dtype)


def _least_squared(dtype: torch.dtype) -> float:
    """The least squared length of a mixed vector, above the rounding errors of unit vectors."""
    return 1e-12 if dtype == torch.float64 else 1e-6


def mixed_cosines(sim: Tensor, bank: Tensor, first: Tensor, second: Tensor, alpha: Tensor) -> Tensor:
    """θ(a, α p + (1-α) q) for candidates p and q by their columns [b, m], from the anchors' cosines [b, N]."""
    cosine: Tensor = _PairCosines.apply(bank, first, second)  # type: ignore[no-untyped-call]
    squared = alpha**2 + (1 - alpha) ** 2 + 2 * alpha * (1 - alpha) * cosine
    return blend(sim, first, second, alpha) * inverse_length(squared)


def blend(sim: Tensor, first: Tensor, second: Tensor, alpha: Tensor) -> Tensor:
    """α θ(a, p) + (1-α) θ(a, q), [b, m]."""
    return alpha * sim.gather(1, first) + (1 - alpha) * sim.gather(1, second)


class _PairCosines(torch.autograd.Function):
    """z_p·z_q for index pairs [b, m], a few at a time: [b, m, d] is never allocated."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, first: Tensor, second: Tensor) -> Tensor:
        ctx.save_for_backward(z, first, second)
        chunks = zip(*(index.flatten().split(CACHED_PAIRS) for index in (first, second)), strict=True)
        cosines = [z.index_select(0, p).mul_(z.index_select(0, q)).sum(dim=1) for p, q in chunks]
        return torch.cat(cosines).view_as(first)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Row p gets Σ g·z_q and row q gets Σ g·z_p: a bag of weighted rows for every node."""
        z, first, second = ctx.saved_tensors
        target = torch.cat([first.flatten(), second.flatten()])
        source = torch.cat([second.flatten(), first.flatten()])
        order = target.int().argsort()
        starts = torch.bincount(target, minlength=len(z)).cumsum(0).roll(1)
        starts[0] = 0
        weight = grads[0].flatten().repeat(2)[order]
        return embedding_bag(source[order], z, starts, mode="sum", per_sample_weights=weight), None, None
