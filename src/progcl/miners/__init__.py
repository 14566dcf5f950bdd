"""Ways to treat negatives: one class each, and the table of their names."""

from __future__ import annotations

from collections.abc import Callable

from progcl.miners.base import Block, Miner, Plan
from progcl.miners.debiased import DCL, HCL
from progcl.miners.frozen import FrozenPosterior
from progcl.miners.mochi import MoCHi
from progcl.miners.progcl import ProGCLMix, ProGCLWeight
from progcl.miners.ring import Ring

__all__ = [
    "DCL",
    "HCL",
    "MINERS",
    "PROPOSED",
    "Block",
    "FrozenPosterior",
    "Miner",
    "MoCHi",
    "Plan",
    "ProGCLMix",
    "ProGCLWeight",
    "Ring",
]

MINERS: dict[str, Callable[..., Miner]] = {
    "none": Miner,
    "progcl-weight": ProGCLWeight,
    "progcl-mix": ProGCLMix,
    "dcl": DCL,
    "hcl": HCL,
    "ring": Ring,
    "mochi": MoCHi,
}
PROPOSED = ("none", "progcl-weight", "progcl-mix")  # what the paper proposes, beside its base
