"""Layer-wise importance sampling of FastGCN: a layer's sources are drawn once for all targets of a batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from progcl.data.rows import build_csr
from progcl.errors import in_range
from progcl.graph.batching import BatchLoader
from progcl.graph.sampled import NodeFeatures
from progcl.graph.sampler import NeighborSampler
from progcl.graph.sparse import SparseMatrix, concat_ranges, propagate
from progcl.graph.views import LayerInput


@dataclass(frozen=True)
class LayerSample:
    """Sampled sources of one layer.

    Attributes:
        sources: distinct node numbers [s], ascending
        matrix: estimate of the targets' rows of D̂^-½ Â D̂^-½, [targets, s]
    """

    sources: Tensor
    matrix: SparseMatrix


class LayerSampler:
    """Draws the sources of a layer from q(u) ∝ ‖P(:, u)‖², P = D̂^-½ Â D̂^-½, independently and with replacement.

    With t draws u_1, ..., u_t the layer's sum Σ_u P(v, u) h(u) is estimated by 1/t Σ_j P(v, u_j) h(u_j) / q(u_j), which
    is unbiased.

    Chen, Ma, Xiao: FastGCN: Fast Learning with Graph Convolutional Networks via Importance Sampling (2018).

    Args:
        neighbors: the edges
        samples: t
        nodes: those that may be drawn; None for all
    """

    def __init__(self, neighbors: NeighborSampler, samples: int, nodes: Tensor | None = None) -> None:
        in_range("samples", samples, 1)
        self.neighbors = neighbors
        self.samples = samples
        self.scale = neighbors.degree.add(1).double().rsqrt()
        inverse = self.scale.square()
        target_inverse = inverse.repeat_interleave(neighbors.degree)
        column = inverse.clone().index_add_(0, neighbors.neighbors, target_inverse) * inverse  # ‖P(:, u)‖²
        if nodes is not None:
            column *= torch.zeros_like(column).index_fill_(0, nodes, 1)
        self.probability = column / column.sum()
        self._ends = self.probability.cumsum(0)
        self._ends /= self._ends[-1].clone()

    def sample(self, targets: Tensor, generator: torch.Generator) -> LayerSample:
        """Sources for some targets [n], and the matrix that estimates their sums."""
        uniform = torch.rand(self.samples, generator=generator, dtype=torch.double).to(targets.device)
        draws = torch.searchsorted(self._ends, uniform, right=True)
        sources, counts = draws.unique(return_counts=True)
        weight = torch.zeros_like(self.probability)
        weight[sources] = counts / (self.samples * self.probability[sources])
        row, node = self._list_messages(targets)
        kept = (weight[node] > 0).nonzero().flatten()
        row, node = row[kept], node[kept]
        value = (self.scale[targets[row]] * self.scale[node] * weight[node]).float()
        return LayerSample(sources, _build_matrix(row, torch.searchsorted(sources, node), value, len(targets), sources))

    def _list_messages(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Positions of targets, ascending, and the nodes that send to them: neighbors, and the target itself."""
        degree = self.neighbors.degree[targets]
        position = torch.arange(len(targets), device=targets.device)
        entry = concat_ranges(self.neighbors.rowptr[targets], degree)
        row = torch.cat([position.repeat_interleave(degree), position])
        node = torch.cat([self.neighbors.neighbors[entry].long(), targets])
        order = row.argsort(stable=True)
        return row[order], node[order]


def _build_matrix(row: Tensor, column: Tensor, value: Tensor, num_rows: int, sources: Tensor) -> SparseMatrix:
    """A sparse matrix [num_rows, len(sources)] from entries in row order."""
    order = column.argsort(stable=True)
    row_counts, column_counts = torch.bincount(row, minlength=num_rows), torch.bincount(column, minlength=len(sources))
    return SparseMatrix(
        build_csr(row_counts, column, value, len(sources)), build_csr(column_counts, row[order], value[order], num_rows)
    )


class LayerBatches(BatchLoader["LayerBatch"]):
    """Shuffled batches of seed nodes with sampled layers.

    Args:
        sampler: draws the sources of every layer
        features: of all nodes
        layers: number of layers
        seeds: the nodes to iterate over
        size: seeds of a batch
        seed: of shuffling and sampling
        steps: batches of an epoch; None for a full pass over all seeds
    """

    def __init__(
        self,
        sampler: LayerSampler,
        features: NodeFeatures,
        layers: int,
        seeds: Tensor,
        size: int,
        seed: int,
        steps: int | None = None,
    ) -> None:
        super().__init__(seeds, size, seed, steps)
        self.sampler = sampler
        self.features = features
        self.layers = layers

    def draw(self, seeds: Tensor, local_seeds: Tensor, key: int, pairs: Tensor | None = None) -> LayerBatch:
        """A batch with the sources of every layer."""
        generator, targets, samples = torch.Generator().manual_seed(key), local_seeds, []
        for _ in range(self.layers):
            samples.append(self.sampler.sample(targets, generator))
            targets = samples[-1].sources
        return LayerBatch(self.features, tuple(reversed(samples)), seeds)


@dataclass(frozen=True)
class LayerBatch:
    """Seed nodes with sampled layers, the features' first; a view of itself.

    Attributes:
        features: of all nodes
        samples: sources and matrix of every layer
        seeds: the targets of the last layer
    """

    features: NodeFeatures
    samples: tuple[LayerSample, ...]
    seeds: Tensor
    pairs: Tensor | None = None

    def full_view(self) -> LayerBatch:
        """All that was sampled."""
        return self

    def layer_input(self, number: int, x: Tensor | None, last: bool) -> LayerInput:
        """Input of layer `number`: x of its sources, or their features if x is None."""
        return _LayerSampleInput(self.features, self.samples[number], x)


class _LayerSampleInput:
    """The sources of a layer; of its targets themselves nothing is known but what was drawn."""

    def __init__(self, features: NodeFeatures, sample: LayerSample, x: Tensor | None) -> None:
        self.features, self.sample, self.x = features, sample, x

    def propagate(self, weight: Tensor, mean: bool = False) -> Tensor:
        assert not mean, "the estimate is that of the symmetric normalization"
        if self.x is not None:
            return propagate(self.x @ weight, self.sample.matrix)
        sources, features = self.sample.sources, self.features
        x = features.transform(sources, weight) if features.is_sparse else features.gather(sources) @ weight
        return propagate(x, self.sample.matrix)

    def transform(self, weight: Tensor) -> Tensor:
        raise NotImplementedError("targets are not among the sampled nodes")

    def dropout(self, rate: float, key: int) -> LayerInput:
        raise NotImplementedError("sampled layers have no dropout")
