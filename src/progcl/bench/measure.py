"""Times by turns, memory in fresh processes, and what a result has to say about where it was measured."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from progcl.training.checkpoint import write_text


def by_turns(sides: Mapping[str, Callable[[], object]], repeats: int, progress: tqdm[Any]) -> dict[str, float]:
    """Median seconds of each side: all run once to warm up, then `repeats` rounds of one run each."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats + 1):
        for name, run in sides.items():
            progress.set_postfix_str(name)
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
            progress.update()
    return {name: statistics.median(taken[1:]) for name, taken in seconds.items()}


def peak_above(run: Callable[[], object]) -> float | None:
    """Megabytes that the process grew by at its peak, over what it held before `run`; None where only Linux tells."""
    if sys.platform != "linux":
        return None
    held = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    run()
    return round(_resident("VmHWM") - held, 1)


def _resident(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key))


def write(folder: Path, name: str, settings: Mapping[str, Any], results: Any) -> Path:
    """Keep a result with its settings and the machine's description, as JSON."""
    machine = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        **{package: version(package) for package in ("progcl", "torch")},
    }
    folder.mkdir(parents=True, exist_ok=True)
    content = {"benchmark": name, "settings": dict(settings), "machine": machine, "results": results}
    write_text(folder / f"{name}.json", json.dumps(content, indent=2) + "\n")
    return folder / f"{name}.json"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Aligned columns, the first to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) if not column else cell.rjust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in [head, *rows])
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()
