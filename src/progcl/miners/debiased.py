"""DCL and HCL: estimate what the true negatives alone would weigh."""

from __future__ import annotations

from torch import Tensor

from progcl.errors import in_range
from progcl.miners.base import Block, Miner


class DCL(Miner):
    """Subtract the false negatives that a class prior leads to expect (debiased contrastive loss, Chuang et al., 2020).

    Of n negatives, τ⁺·n are expected to be of the anchor's class and to look like its positive:
    N = max{(Σ_k e^{s_k/τ} - τ⁺ n e^{pos/τ}) / (1-τ⁺), n e^{-1/τ}}, the least that n negatives can weigh.

    Args:
        class_prior: τ⁺, the probability that a random node is of the anchor's class; 0 is InfoNCE
    """

    def __init__(self, class_prior: float = 0.1) -> None:
        super().__init__()
        in_range("class_prior", class_prior, 0, 0.99, "the probability of two nodes to share a class, such as 0.1")
        self.class_prior = class_prior

    def extra_repr(self) -> str:
        """What the miner is set to."""
        return f"class_prior={self.class_prior}"

    def correct(self, mass: Tensor, block: Block) -> Tensor:
        """N, [b]."""
        expected = self.class_prior * block.count * block.exp(block.pos)
        least = block.count * block.exp(block.pos.new_tensor(-1.0))
        return ((mass - expected) / (1 - self.class_prior)).clamp_min(least)


class HCL(DCL):
    """DCL with the harder negatives counting more (hard contrastive loss, Robinson et al., 2021).

    w_k = e^{β s_k/τ} / mean_j e^{β s_j/τ} over the anchor's negatives; the gradient runs through w, as in the original.

    Args:
        class_prior: τ⁺ of DCL
        concentration: β, how much more the hard ones count; 0 is DCL
    """

    def __init__(self, class_prior: float = 0.1, concentration: float = 1.0) -> None:
        super().__init__(class_prior)
        in_range("concentration", concentration, 0, 100, "the original uses 0.5 to 2")
        self.concentration = concentration

    def extra_repr(self) -> str:
        """What the miner is set to."""
        return f"{super().extra_repr()}, concentration={self.concentration}"

    def weight(self, block: Block) -> Tensor:
        """w, [b, V, N]."""
        hardness = block.masked(block.sim * (self.concentration / block.tau), float("-inf"))
        return block.count * hardness.flatten(1).softmax(dim=1).view_as(hardness)
