"""The embedding of a run times some numbers, under each protocol: `gca` fits rows as they are, the others unit rows.

python benchmarks/scaled_rows.py RUN [--factors 1 10 100] [--splits 5]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from progcl.config.load import load_config
from progcl.data.datasets import load_data
from progcl.evaluation.probe import PROTOCOLS, linear_probe
from progcl.export import load_run_embeddings


def main() -> None:
    """Print a row for each factor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--factors", type=float, nargs="+", default=[1.0, 10.0, 100.0])
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    vectors = torch.from_numpy(load_run_embeddings(options.run)[0])
    data = load_data(load_config(options.run / "config.yaml").data)
    print(f"mean length of rows: {float(vectors.norm(dim=1).mean()):.2f}")
    for factor in options.factors:
        scores = {name: linear_probe(factor * vectors, data, name, options.splits).mean for name in PROTOCOLS}
        print(f"times {factor:g}: " + ", ".join(f"{name} {score:.2f}" for name, score in scores.items()), flush=True)


if __name__ == "__main__":
    main()
