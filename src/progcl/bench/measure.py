"""Timing by turns, peak memory, result files that name the machine, and text tables."""

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

from progcl.training.files import write_text


def time_by_turns(sides: Mapping[str, Callable[[], object]], repeats: int, progress: tqdm[Any]) -> dict[str, float]:
    """Median seconds of each side: one warm-up round, then `repeats` rounds in which each side runs once."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats + 1):
        for name, run in sides.items():
            progress.set_postfix_str(name)
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
            progress.update()
    return {name: statistics.median(times[1:]) for name, times in seconds.items()}


def measure_peak(run: Callable[[], object]) -> float | None:
    """Peak of resident memory during `run`, in MB above the memory before it; None on other systems than Linux."""
    if sys.platform != "linux":
        return None
    before = _read_status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    run()
    return round(_read_status("VmHWM") - before, 1)


def _read_status(key: str) -> float:
    """A field of /proc/self/status, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key))


def write_result(folder: Path, name: str, settings: Mapping[str, Any], results: Any) -> Path:
    """Write a result with its settings and a description of the machine to `name`.json."""
    machine = {
        "processor": _read_processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        **{package: version(package) for package in ("progcl", "torch")},
    }
    folder.mkdir(parents=True, exist_ok=True)
    content = {"benchmark": name, "settings": dict(settings), "machine": machine, "results": results}
    write_text(folder / f"{name}.json", json.dumps(content, indent=2) + "\n")
    return folder / f"{name}.json"


def align_columns(head: list[str], rows: list[list[str]]) -> str:
    """A text table: the first column is left-aligned, the others right-aligned."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) if not column else cell.rjust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in [head, *rows])
    )


def _read_processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
