"""Unsupervised GraphSAGE: nodes that are near each other on random walks get similar embeddings, by any encoder."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn.functional import normalize, softplus

from progcl.config.methods import SageOptions
from progcl.errors import InputError
from progcl.graph.batching import PairedSeeds
from progcl.graph.loader import Batch, GraphInput
from progcl.methods.base import Context, Method

KEY_RANGE = 2**62
NOISE_PER_STEP = 128  # drawn nodes, which all pairs of a step share: their similarities are one matrix product


class Sage(Method):
    """Tell the nodes that a walk from u visits from noise, by the graph-based loss of GraphSAGE (Eq. 1).

    J = mean_uv [-log σ(z_u·z_v) - Q mean_n log σ(-z_u·z_n)],   z = h / ‖h‖

    over the nodes v ≠ u of one short walk from each seed u of a step. Noise n is drawn in proportion to degree^(3/4);
    in a weighted graph, with the sum of a node's weights in place of its degree. The encoder's output h may be that of
    any encoder; `sage` samples neighbors and is the paper's. Its last layer has no activation, as in the authors' code.

    Hamilton, Ying, Leskovec: Inductive Representation Learning on Large Graphs (2017).
    """

    Options = SageOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.encoder = context.encoder()
        self.encoder.activate_last = False  # else noise could be repelled by vectors of zeros alone
        self.walker = context.graph.walker
        share = self.walker.strength.cpu().double().pow(0.75).cumsum(0)
        if not share[-1] > 0:
            raise InputError("the graph has no edges to walk along")
        self.noise_ends = share / share[-1]

    def batches(self, epoch: int) -> Iterable[Batch]:
        """The loader's batches with what walks from the seeds visit, and noise; the full graph is one as it is."""
        return self.paired_batches(epoch, self.pair)

    def pair(self, seeds: Tensor, key: int) -> PairedSeeds:
        """Seeds, visited nodes and noise, random by the key; pairs (u, v), and noise as pairs (n, n) at their end."""
        generator = torch.Generator().manual_seed(key)
        draws = torch.randint(KEY_RANGE, (len(seeds), self.options.steps), generator=generator)
        paths = self.walker.paths(seeds, draws.to(seeds.device))
        noise = self.draw_noise(generator).to(seeds.device)
        nodes, position = torch.cat([paths.flatten(), noise]).unique(return_inverse=True)
        paths, noise = position[: paths.numel()].view_as(paths), position[paths.numel() :]
        walked = torch.stack([paths[:, :1].expand_as(paths[:, 1:]), paths[:, 1:]]).flatten(1)
        walked = walked[:, walked[0] != walked[1]]
        return PairedSeeds(nodes, torch.cat([walked, noise.expand(2, -1)], dim=1))

    def draw_noise(self, generator: torch.Generator) -> Tensor:
        """Nodes [NOISE_PER_STEP], drawn with replacement."""
        uniform = torch.rand(NOISE_PER_STEP, generator=generator, dtype=torch.double)
        return torch.searchsorted(self.noise_ends, uniform, right=True)

    def loss(self, batch: Batch) -> Tensor:
        """The loss over the pairs of a batch, or of walks from all nodes of the graph."""
        pairs = batch.pairs
        if pairs is None:
            everyone = torch.arange(self.context.graph.num_nodes, device=self.context.data.edge_index.device)
            key = int(torch.randint(KEY_RANGE, (), generator=self.context.generator("pairs")))
            pairs = self.pair(everyone, key).pairs
        z = normalize(self.encoder(self.half_hop(batch.full_view())), dim=1)
        return walk_loss(z, pairs[:, :-NOISE_PER_STEP], pairs[1, -NOISE_PER_STEP:], self.options.negatives)

    def embed(self, graph: GraphInput) -> Tensor:
        """Encoder output with unit rows, z [N, hidden]."""
        return normalize(graph.embed(self.encoder, self.context.progress), dim=1)

    def release(self) -> None:
        """Drop the training graph, the walks over it, and the noise."""
        super().release()
        del self.walker, self.noise_ends


def walk_loss(z: Tensor, pairs: Tensor, noise: Tensor, negatives: float) -> Tensor:
    """Mean of -log σ(z_u·z_v) - Q mean_n log σ(-z_u·z_n) over pairs (u, v); 0 without any pair.

    Args:
        z: [n, d]
        pairs: positions (u, v) in z, [2, P]
        noise: positions of the noise in z, [m]
        negatives: Q
    """
    u, v = pairs
    attraction = softplus(-(z[u] * z[v]).sum(dim=1)).sum()
    repulsion = softplus(z @ z[noise].T).mean(dim=1)  # of every node, as many pairs share their first
    return (attraction + negatives * repulsion[u].sum()) / max(1, len(u))
