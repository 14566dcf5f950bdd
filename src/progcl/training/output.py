"""From what a method has learned to the embeddings of a run: smoothed, beside features without training, reduced."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from sklearn.decomposition import PCA
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data

from progcl.config.schema import Config
from progcl.graph.hop_features import HopFeatures, apply_pca, fit_pca, stack_hops


@dataclass(frozen=True)
class Output:
    """The blocks of section `output`, fitted to the training graph, so that other graphs get comparable embeddings.

    Attributes:
        smooth: powers of Â, a block each; empty takes the vectors as they are
        center: mean of the learned vectors over the training graph [d]
        features: the features without training; None for none
        pca: the reduction of all blocks; None for none
    """

    smooth: tuple[int, ...]
    center: Tensor
    features: HopFeatures | None = None
    pca: PCA | None = None

    @classmethod
    def fit(cls, config: Config, learned: Tensor, data: Data) -> Output:
        """Fit to the learned vectors [N, d] of the training graph."""
        output = cls(tuple(config.output.smooth), learned.mean(dim=0))
        if config.output.features:
            output = replace(output, features=HopFeatures.fit(data, config.hops))
        if config.output.dim is None:
            return output
        return replace(output, pca=fit_pca(output.apply(learned, data), config.output.dim))

    @property
    def explained(self) -> float | None:
        """Share of the variance that the reduction keeps; None without one."""
        return None if self.pca is None else float(self.pca.explained_variance_ratio_.sum())

    def apply(self, learned: Tensor, data: Data) -> Tensor:
        """The embeddings [N, D] of a graph, given the vectors [N, d] that its method has learned for it."""
        blocks = stack_hops(learned - self.center, data, self.smooth) if self.smooth else learned
        if self.features is not None:
            features = normalize(self.features.transform(data), dim=1)
            blocks = torch.cat([blocks if self.smooth else normalize(blocks, dim=1), features], dim=1)
        return blocks if self.pca is None else apply_pca(self.pca, blocks)
