"""Ledgers of benchmarks: lines of JSON, each run in its own process and never repeated; and tables of them.

Files are read and appended to by `progcl.experiments.ledger`, as that of `progcl reproduce` is.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tqdm import tqdm

from progcl.experiments.ledger import append_line as append_entry
from progcl.experiments.ledger import read_lines as read_ledger

__all__ = ["append_entry", "format_markdown", "read_ledger", "run_missing"]


def format_markdown(rows: Iterable[str], columns: Sequence[str], values: Callable[[str, str], list[float]]) -> str:
    """Markdown table: the mean of each cell's values, with their standard deviation if there are several."""
    lines = ["| | " + " | ".join(columns) + " |", "|-" * (len(columns) + 1) + "|"]
    for row in rows:
        cells = []
        for column in columns:
            cell = values(row, column)
            spread = f" ± {statistics.stdev(cell):.2f}" if len(cell) > 1 else ""
            cells.append(f"{statistics.mean(cell):.2f}{spread}" if cell else "")
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def run_missing(script: str, missing: Iterable[tuple[str, ...]], ledger: Path) -> None:
    """Run `script --one ...` for each missing run, and add the entry it prints.

    Each has a process of its own, so that its peak of memory is its own.
    """
    for arguments in tqdm(list(missing), unit="run"):
        command = [sys.executable, script, "--one", *arguments]
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        append_entry(ledger, json.loads(lines[-1]))
