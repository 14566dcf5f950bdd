"""DCL and HCL: estimates of what the true negatives alone weigh."""

from __future__ import annotations

from torch import Tensor

from progcl.config.miners import DCLOptions, HCLOptions
from progcl.miners.base import Block, Miner


class DCL(Miner):
    """Debiased contrastive loss: subtract the false negatives that a class prior predicts.

    Chuang et al., 2020, "Debiased Contrastive Learning".

    Of n negatives, τ⁺·n are expected to be of the anchor's class and to look like its positive:
    N = max{(Σ_k e^{s_k/τ} - τ⁺ n e^{pos/τ}) / (1-τ⁺), n e^{-1/τ}}, the least that n negatives can weigh.

    Args:
        class_prior: τ⁺, the probability that a random node is of the anchor's class; 0 is InfoNCE
    """

    def __init__(self, class_prior: float = 0.1) -> None:
        super().__init__()
        DCLOptions(class_prior=class_prior)  # raises if a value is out of range
        self.class_prior = class_prior

    def correct(self, mass: Tensor, block: Block) -> Tensor:
        """N, [b]."""
        count = block.count.to(mass.dtype)
        expected = self.class_prior * count * block.exp(block.pos)
        least = count * block.exp(block.pos.new_tensor(-1.0))
        return ((mass - expected) / (1 - self.class_prior)).clamp_min(least)

    def extra_repr(self) -> str:
        """Options of the miner."""
        return f"class_prior={self.class_prior}"


class HCL(DCL):
    """Hard contrastive loss: DCL in which harder negatives weigh more.

    Robinson et al., 2021, "Contrastive Learning with Hard Negative Samples".

    w_k = e^{β s_k/τ} / mean_j e^{β s_j/τ} over the anchor's negatives; the gradient runs through w, as in the original.

    Args:
        class_prior: τ⁺ of DCL
        concentration: β, how much more hard negatives weigh; 0 is DCL
    """

    def __init__(self, class_prior: float = 0.1, concentration: float = 1.0) -> None:
        super().__init__(class_prior)
        HCLOptions(concentration=concentration)
        self.concentration = concentration

    def weight(self, block: Block) -> Tensor:
        """w, [b, V, N]."""
        hardness = block.masked(block.sim * (self.concentration / block.tau), float("-inf"))
        return block.count[:, None, None] * hardness.flatten(1).softmax(dim=1).view_as(hardness)

    def extra_repr(self) -> str:
        """Options of the miner."""
        return f"{super().extra_repr()}, concentration={self.concentration}"
