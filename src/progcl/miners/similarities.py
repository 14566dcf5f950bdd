"""Samples of inter-view similarities, to which a posterior is fitted."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from progcl.miners.base import BLOCK_ELEMENTS, iterate_blocks

MAX_SAMPLE = 2**23  # similarities are enough to fit a handful of parameters


class SimilaritySample(NamedTuple):
    """Sampled cosines [n, M'] and the range that Min-Max normalization maps to [0, 1]."""

    values: Tensor
    low: float
    high: float


def sample_similarities(
    own: Tensor, other: Tensor, samples: int, generator: torch.Generator, shared_columns: bool = False
) -> SimilaritySample:
    """`samples` negatives per anchor, from unit vectors [n, d] of two views, and the range of all n(n-1) negatives.

    With `shared_columns`, all anchors get the same candidates, which may include their positive.
    """
    nodes, device = len(own), own.device
    shift = torch.randint(1, nodes, (nodes, samples), generator=generator)
    columns = torch.randint(0, nodes, (samples,), generator=generator).to(device)
    # Buffers are allocated once: small tensors that stay between large ones that go would fragment the memory.
    values, buffer = own.new_empty(nodes, samples), own.new_empty(0)
    low, high = torch.inf, -torch.inf
    for rows in iterate_blocks(nodes):
        sim = torch.mm(own[rows], other.T, out=buffer.resize_(rows.stop - rows.start, nodes))
        index = torch.arange(rows.start, rows.stop, device=device)
        if shared_columns:
            values[rows] = sim[:, columns]
        else:
            values[rows] = sim.gather(1, (index[:, None] + shift[rows].to(device)) % nodes)
        row = torch.arange(len(sim), device=device)
        sim[row, index] = sim[row, (index + 1) % nodes]  # the positive is not a negative
        low, high = min(low, sim.min().item()), max(high, sim.max().item())
    return SimilaritySample(values, low, high)


def sample_similarities_only(own: Tensor, other: Tensor, samples: int, generator: torch.Generator) -> SimilaritySample:
    """The same in linear time for many nodes: at most MAX_SAMPLE similarities, and their own range."""
    nodes = len(own)
    samples = max(1, min(samples, MAX_SAMPLE // nodes))
    values = own.new_empty(nodes, samples)
    for rows in iterate_blocks(nodes, max(1, BLOCK_ELEMENTS // own[0].numel() // samples)):
        index = torch.arange(rows.start, rows.stop)[:, None]
        shift = torch.randint(1, nodes, (len(index), samples), generator=generator)
        columns = ((index + shift) % nodes).to(own.device)
        values[rows] = torch.einsum("nd,nsd->ns", own[rows], other[columns])
    return SimilaritySample(values, values.min().item(), values.max().item())
