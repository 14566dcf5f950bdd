"""A miner of your own: one class, the contract, and a run with it.

python examples/new_miner.py
progcl train digits --miner.name examples.new_miner:Nearest --miner.options '{"above": 0.4}' --train.epochs 20
"""

import torch
from torch import Tensor

from progcl import Miner, fit, load_config
from progcl.miners.base import Block
from progcl.testing import check_miner


class Nearest(Miner):
    """Weight negatives by a logistic of their similarity: 1 well above a threshold, 0 well below it."""

    def __init__(self, above: float = 0.3, softness: float = 0.1) -> None:
        super().__init__()
        self.above = above
        self.softness = softness

    def weight(self, block: Block) -> Tensor:
        """Weights [b, 2, N], without gradient."""
        return torch.sigmoid((block.sim.detach() - self.above) / self.softness)


def main() -> None:
    """Check the contract, then train with the class by its import path and its own options."""
    check_miner(Nearest)
    print("Nearest passes the contract")
    options = {
        "miner.name": f"{__name__}:Nearest",
        "miner.options": {"above": 0.4},
        "data.nodes": 500,
        "train.epochs": 20,
        "probe.splits": 5,
    }
    result = fit(load_config("csbm", options))
    print(f"accuracy {result.score}, loss {result.losses[0]:.3f} -> {result.losses[-1]:.3f}")


if __name__ == "__main__":
    main()
