"""Peak memory of every system of table 2 on Coauthor-CS (18,333 nodes, 6,805 features), with the settings of its cell.

    python benchmarks/method_memory.py [ROW ...]    run what is missing, then print
    python benchmarks/method_memory.py --table      print from results/method-memory.jsonl

Two epochs of training, the second with weights by the mixture where there is a miner, then the embedding and one split
of the probe, or predictions for all splits of what is trained with labels; each row in a process of its own. Later
epochs hold what the second does.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ledger import read_ledger, run_missing

from progcl.data.datasets import load_data
from progcl.evaluation.probe import linear_probe
from progcl.evaluation.supervised import score_predictions
from progcl.experiments.tables import load_tables
from progcl.training.trainer import Trainer, peak_mb

LEDGER = Path(__file__).parents[1] / "results" / "method-memory.jsonl"
TABLE, DATA = "table2", "cs"


def main() -> None:
    """Run what is missing, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cells = load_tables()[TABLE].columns[DATA].cells
    parser.add_argument("rows", nargs="*", default=list(cells))
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    if not options.table:
        done = {entry["row"] for entry in read_ledger(LEDGER)}
        run_missing(__file__, [(row,) for row in options.rows if row not in done], LEDGER)
    by_peak: dict[str, list[str]] = {}
    for entry in sorted(read_ledger(LEDGER), key=lambda entry: list(cells).index(entry["row"])):
        by_peak.setdefault(f"{entry['peak_mb'] / 1000:.1f}", []).append(f"`{entry['row']}`")
    print("| peak memory, GB | systems |\n|-|-|")
    for peak in sorted(by_peak):
        print(f"| {peak} | {', '.join(by_peak[peak])} |")


def measure(row: str) -> dict[str, Any]:
    """The peak of a short run."""
    config = load_tables()[TABLE].columns[DATA].cells[row].config()
    if hasattr(config.miner, "start_epoch"):
        config = replace(config, miner=replace(config.miner, start_epoch=1))
    data = load_data(config.data)
    trainer = Trainer(config, data)
    epochs = len(list(trainer.run(2)))
    if config.method.needs_labels:
        score_predictions(trainer.method, trainer.all_nodes(), config.probe)
    else:
        linear_probe(trainer.embed(), data, "clean", splits=1)
    return {"row": row, "epochs": epochs, "peak_mb": peak_mb()}


if __name__ == "__main__":
    main()
