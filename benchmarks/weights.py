"""The figure of docs/negatives.md: the weight that each miner gives to negatives, from a run that has passed epoch E.

Ring is its variant `middle`.

progcl train photo --train.epochs 400 --out runs/photo
python benchmarks/weights.py runs/photo docs/images/weights.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

from progcl import InfoNCE, load_config
from progcl.config import to_dict
from progcl.data.datasets import load_data
from progcl.miners import MINERS, make_miner
from progcl.report.plots import draw_weights
from progcl.training.checkpoint import load as load_checkpoint


def main() -> None:
    """Prepare each miner with the views of epoch E, and plot its weights."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    run, path = (Path(argument) for argument in sys.argv[1:])
    config = load_config(str(run / "config.yaml"))
    tensors, _ = load_checkpoint(run / "checkpoint.safetensors")
    if not len(tensors.get("method.criterion.miner.whole_graph.vectors", ())):
        sys.exit(f"{run} is not a run with ProGCL that has passed epoch E")
    views = tuple(tensors["method.criterion.miner.whole_graph.vectors"])
    losses = {}
    for name in MINERS:
        if name != "none":
            changes = {"miner.name": name} | ({"miner.keep": "middle"} if name == "ring" else {})
            options = load_config(str(run / "config.yaml"), changes).miner
            miner = make_miner(options)
            losses[name] = InfoNCE(config.loss.tau, miner)
            losses[name].set_epoch(to_dict(config)["miner"]["start_epoch"])
            miner.prepare(*views)
    data = load_data(config.data)
    draw_weights(losses, (views[0], views[1]), data, path)
    print(path)


if __name__ == "__main__":
    main()
