"""What the tables' scripts share: runs in processes of their own, a line of JSON each, none repeated."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm


def entries(ledger: Path) -> list[dict[str, Any]]:
    """The runs so far."""
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def add(ledger: Path, entry: dict[str, Any]) -> None:
    """One run more."""
    with ledger.open("a") as file:
        file.write(json.dumps(entry) + "\n")


def table(rows: Iterable[str], columns: Sequence[str], values: Callable[[str, str], list[float]]) -> str:
    """Markdown: the mean of a cell's values, and their standard deviation if there are several."""
    lines = ["| | " + " | ".join(columns) + " |", "|-" * (len(columns) + 1) + "|"]
    for row in rows:
        cells = []
        for column in columns:
            found = values(row, column)
            spread = f" ± {statistics.stdev(found):.2f}" if len(found) > 1 else ""
            cells.append(f"{statistics.mean(found):.2f}{spread}" if found else "")
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def run_each(script: str, missing: Iterable[tuple[str, ...]], ledger: Path) -> None:
    """`script --one ...` for each, which prints an entry; each in a process, so that its peak of memory is its own."""
    for arguments in tqdm(list(missing), unit="run"):
        command = [sys.executable, script, "--one", *arguments]
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        add(ledger, json.loads(lines[-1]))
