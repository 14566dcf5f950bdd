"""The picture of docs/negatives.md: the weight that each miner gives, from a run that has passed epoch E.

progcl train photo --train.epochs 400 --out runs/photo
python benchmarks/weights.py runs/photo docs/images/weights.svg
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from progcl import InfoNCE, load_config
from progcl.data.datasets import load_data
from progcl.miners import MINERS
from progcl.report.figures import draw_weights
from progcl.training.checkpoint import load as load_checkpoint
from progcl.training.trainer import make_miner


def main() -> None:
    """Give every miner the views of epoch E, and draw what it makes of them."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    run, path = (Path(argument) for argument in sys.argv[1:])
    config = load_config(str(run / "config.yaml"))
    tensors, _ = load_checkpoint(run / "checkpoint.safetensors")
    if not len(tensors.get("method.criterion.miner.snapshot", ())):
        sys.exit(f"{run} is no run with ProGCL that has passed epoch E")
    views = tuple(tensors["method.criterion.miner.snapshot"])
    losses = {}
    for name in MINERS:
        if name != "none":
            miner = make_miner(replace(config, miner=replace(config.miner, name=name)))
            losses[name] = InfoNCE(config.loss.tau, miner)
            losses[name].set_epoch(config.miner.start_epoch)
            miner.prepare(*views)
    data = load_data(config.data)
    draw_weights(losses, (views[0], views[1]), data, path)
    print(path)


if __name__ == "__main__":
    main()
