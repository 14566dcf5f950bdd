"""Seconds of an epoch for the cells of `progcl reproduce`, and of its probe: what plans are estimated by.

    python benchmarks/epoch_seconds.py [TABLE/DATA ...]    measure cells that have no figure yet
    python benchmarks/epoch_seconds.py --probe             seconds of a split for each node and column

Figures are processor time on one core, so that other programs do not count; the second epoch is measured, as the first
one sets things up. They are written to src/progcl/experiments/epoch_seconds.json, 0 for what is not trained.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from tqdm import tqdm

from progcl.data.datasets import load_data, load_dataset
from progcl.errors import InputError
from progcl.evaluation.probe import PROTOCOLS, linear_probe
from progcl.experiments.plan import EPOCH_SECONDS, load_epoch_seconds
from progcl.experiments.tables import Cell, load_tables
from progcl.methods.features import propagated
from progcl.training.trainer import Trainer

PROBE_SPLITS = 4


def main() -> None:
    """Measure, and write after every cell."""
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--probe"]:
        measure_probe()
        return
    seconds = load_epoch_seconds()
    cells = [cell for table in load_tables().values() for cell in table.select()]
    wanted = sys.argv[1:] or sorted({f"{cell.table}/{cell.data}" for cell in cells})
    for cell in tqdm([cell for cell in cells if f"{cell.table}/{cell.data}" in wanted and cell.name not in seconds]):
        try:
            seconds[cell.name] = round(measure(cell), 3)
        except InputError as error:
            tqdm.write(f"{cell.name}: {error.args[0]}")
        EPOCH_SECONDS.write_text(json.dumps(seconds, indent=2, sort_keys=True) + "\n")


def measure(cell: Cell) -> float:
    """Processor seconds of the second epoch; with a miner, of the second one in which it mines."""
    config = cell.config()
    trainer = Trainer(config, load_data(config.data))
    for miner in trainer.method.miners():
        if hasattr(miner, "start_epoch"):
            miner.start_epoch = 1
    epochs = trainer.run(config.train.epochs)
    if next(epochs, None) is None:
        return 0.0
    start = time.process_time()
    next(epochs)
    return time.process_time() - start


def measure_probe() -> None:
    """Print seconds of a split for each node and column, on Amazon-Photo with 256 columns."""
    data = load_dataset("photo")
    vectors = 10 * propagated(data)
    for protocol in PROTOCOLS:
        start = time.process_time()
        linear_probe(vectors, data, protocol, splits=PROBE_SPLITS)
        split = (time.process_time() - start) / PROBE_SPLITS
        print(f"{protocol}: {split:.2f} s a split, {split / vectors.numel():.1e} s for each node and column")


if __name__ == "__main__":
    main()
