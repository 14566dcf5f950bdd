"""From what a method has learned to the embeddings of a run: smoothed, beside features without training, reduced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data

from progcl.config.schema import Config
from progcl.data.walk_factors import WalkFactors
from progcl.graph.hop_features import HopFeatures, apply_pca, fit_pca, stack_hops
from progcl.training.alignment import Alignment, describe_alignment
from progcl.training.choice import Choice, describe_choice, link_auc
from progcl.training.files import Embeddings

OWN_FEATURES_WEIGHT = 0.5  # of the learned vectors, from which on they stand for a node's own features


@dataclass(frozen=True)
class Output:
    """The blocks of section `output`, fitted to the training graph, so that other graphs get comparable embeddings.

    Attributes:
        center: mean of the learned vectors over the training graph [d]
        smooth: powers of Â, a block each; empty takes the vectors as they are
        weight: length of the learned vectors beside the other blocks; 0 leaves them out
        features: the features without training; None for none
        walks: the walk vectors of the training graph, which those of other graphs are folded into; None for none
        pca: the reduction of all blocks; None for none
        alignment: the rotation onto the embeddings of an earlier run; None for none
        choice: how the blocks were chosen; None if they were not
        not_judged: why nothing was trained, where a choice was asked for
        cost: of the reduction, in plain numbers
    """

    center: Tensor
    smooth: tuple[int, ...] = ()
    weight: float = 1.0
    features: HopFeatures | None = None
    walks: WalkFactors | None = None
    pca: PCA | None = None
    alignment: Alignment | None = None
    choice: Choice | None = None
    not_judged: str = ""
    cost: dict[str, float] | None = None

    @classmethod
    def fit(cls, config: Config, learned: Tensor, data: Data, choice: Choice | str = "") -> Output:
        """Fit to the learned vectors [N, d] of the training graph.

        For `output.blocks` auto, `choice` is how they were judged, or why nothing was trained.
        """
        options, hops = config.output, config.hops
        blocks, weight = _resolve_blocks(options.blocks, choice)
        structure = 0 if blocks == "own" or data.get("structural") else options.structure
        powers = [0] if blocks == "own" else hops.beside if weight >= OWN_FEATURES_WEIGHT else hops.powers
        has_features = options.features or blocks == "own"
        walks = WalkFactors.fit(data, structure) if structure else None  # first, as counting pairs takes most memory
        output = cls(
            center=learned.mean(dim=0),
            smooth=tuple(options.smooth),
            weight=weight,
            features=HopFeatures.fit(data, replace(hops, powers=powers)) if has_features else None,
            walks=walks,
            choice=choice if isinstance(choice, Choice) else None,
            not_judged=choice if isinstance(choice, str) else "",
        )
        return output if options.dim is None else output._reduce(output.apply(learned, data), data, options.dim)

    def apply(self, learned: Tensor, data: Data) -> Tensor:
        """The embeddings [N, D] of a graph, given the vectors [N, d] that its method has learned for it."""
        is_alone = self.features is None and self.walks is None
        walks = None if self.walks is None else self.walks.transform(data)  # first, as walks take most memory
        features = None if self.features is None else normalize(self.features.transform(data), dim=1)
        blocks = []
        if self.smooth and self.weight:
            centered = learned - self.center.to(learned.device)
            blocks.append(stack_hops(centered, data, self.smooth).mul_(self.weight))
        elif self.weight:
            blocks.append(learned if is_alone else self.weight * normalize(learned, dim=1))
        if features is not None:
            blocks.append(features)
        if walks is not None:
            blocks.append(self.structure_weight * walks.to(learned.device))
        embeddings = blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=1)
        embeddings = embeddings if self.pca is None else apply_pca(self.pca, embeddings)
        return embeddings if self.alignment is None else self.alignment.apply(embeddings)

    def align(self, embeddings: Tensor, names: list[str], earlier: Embeddings) -> Output:
        """With a rotation of these embeddings [N, D] onto those that an earlier run has of the same nodes."""
        return replace(self, alignment=Alignment.fit(embeddings, names, earlier))

    def facts(self) -> dict[str, Any]:
        """What a report should say: the blocks, unless it is the learned vectors alone, the choice, the reduction."""
        every = {
            "choice": self.choice and self.choice.facts(),
            "not judged": self.not_judged,
            "reduction": self.cost,
            "alignment": self.alignment and self.alignment.facts,
        }
        facts: dict[str, Any] = {name: value for name, value in every.items() if value}
        if self.blocks == ["learned"]:
            return facts
        return {"blocks": self.blocks, "learned columns": self.learned_columns, **facts}

    @property
    def structure_weight(self) -> float:
        """Length of the walk vectors: the less the features tell, the more they count (docs/recipes.md)."""
        return 1 - self.weight / 2

    @property
    def learned_columns(self) -> int:
        """The first columns of the embeddings, which were learned; 0 if all are mixed."""
        is_mixed = self.pca is not None or self.alignment is not None
        return 0 if is_mixed or not self.weight else len(self.center) * max(1, len(self.smooth))

    @property
    def blocks(self) -> list[str]:
        """Names of the blocks."""
        names = {0: "learned", 1: "smoothed once"}
        smoothed = [names.get(power, f"smoothed {power} times") for power in self.smooth] or ["learned"]
        blocks = smoothed if self.weight else []
        if self.features is not None:
            blocks.append("features of several hops" if len(self.features.hops) > 1 else "own features")
        return [*blocks, "walk vectors"] if self.walks is not None else blocks

    def _reduce(self, blocks: Tensor, data: Data, dimensions: int) -> Output:
        """With a PCA fitted to all blocks [N, D], and what it costs: variance, and how well links are predicted."""
        pca = fit_pca(blocks, dimensions)
        reduced = apply_pca(pca, blocks)
        shares = np.nan_to_num(pca.explained_variance_ratio_)  # NaN if all rows are equal
        links, weight = data.edge_index, data.get("edge_weight")
        cost = {
            "from": blocks.size(1),
            "asked": dimensions,
            "to": reduced.size(1),
            "variance": round(float(shares.sum()), 4),
            "auc before": round(link_auc(blocks, links, weight=weight, center=blocks.mean(dim=0)), 4),
            "auc": round(link_auc(reduced, links, weight=weight), 4),
        }
        return replace(self, pca=pca, cost=cost)


def describe_facts(facts: dict[str, Any]) -> list[str]:
    """Sentences on what was chosen, and what a reduction costs."""
    sentences = [describe_choice(facts["choice"])] if "choice" in facts else []
    sentences += [f"nothing is trained: {facts['not judged']}"] if "not judged" in facts else []
    if "reduction" in facts:
        cost = facts["reduction"]
        before, after = f"{cost['from']:,} numbers per node", f"{cost['to']:,}"
        after += f" (there are no more, {cost['asked']:,} were asked for)" if cost["asked"] > cost["to"] else ""
        links = f"links are told from random pairs with AUC {cost['auc']:.3f} instead of {cost['auc before']:.3f}"
        sentences.append(f"{before} reduced to {after}: {cost['variance']:.0%} of the variance is kept, {links}")
    return sentences + ([describe_alignment(facts["alignment"])] if "alignment" in facts else [])


def _resolve_blocks(asked: str, choice: Choice | str) -> tuple[str, float]:
    """The blocks, and the weight of the learned vectors."""
    if asked != "auto":
        return asked, float(asked == "learned")
    if isinstance(choice, str):
        return "untrained", 0.0
    return choice.blocks, choice.weight if choice.blocks == "learned" else 0.0
