"""Ways to treat negatives: one class each, and the table of their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from torch_geometric.data import Data

from progcl.config.miners import MINER_ENTRIES, MinerOptions, OwnMinerOptions
from progcl.data.labels import oracle_classes
from progcl.miners.base import Block, Miner, Plan
from progcl.miners.debiased import DCL, HCL
from progcl.miners.frozen import FrozenPosterior
from progcl.miners.mochi import MoCHi
from progcl.miners.progcl import ProGCLMix, ProGCLWeight
from progcl.miners.ring import Ring
from progcl.posteriors.baselines import Oracle
from progcl.registry import build, find, import_target, require_subclass

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
    "make_miner",
]

MINERS: dict[str, Callable[..., Miner]] = {
    name: import_target(entry.target, "miner") for name, entry in MINER_ENTRIES.items()
}
PROPOSED = ("none", "progcl-weight", "progcl-mix")  # what the paper proposes, beside its base


def make_miner(options: MinerOptions, seed: int = 0, data: Data | None = None, per_batch: bool = False) -> Miner:
    """The miner that a configuration names, with the options that its class has; `data` gives the oracle its labels."""
    own = options.options if isinstance(options, OwnMinerOptions) else {}  # a user's class has its own defaults
    values = {**({} if isinstance(options, OwnMinerOptions) else asdict(options)), "seed": seed, "per_batch": per_batch}
    if values.get("estimator") == "oracle" and data is not None:
        values["estimator"] = Oracle(oracle_classes(data))
    return build(require_subclass(find(MINERS, options.name, "miner"), Miner, options.name), values, own)
