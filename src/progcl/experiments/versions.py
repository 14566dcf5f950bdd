"""The version of the code that a result depends on: counted by behavior, not by text.

`behavior.json` has a version for every method, encoder, miner and protocol, beside numbers that it gave on a tiny graph
(`progcl.experiments.behavior`). A test compares them: what changes no number leaves results valid; what changes one
cannot be merged without a new version, and then makes the results of that part stale.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from progcl.config import Config

VERSIONS = Path(__file__).with_name("behavior.json")


def code_version(config: Config) -> str:
    """Versions of the parts that a run consists of, such as `method gca 1, encoder gcn 1, miner none 1, probe 1`."""
    known = load_versions()
    parts = [f"method {config.method.name}", f"encoder {config.encoder.name}", f"miner {config.miner.name}", "probe"]
    return ", ".join(f"{part} {known.get(part, {'version': 0})['version']}" for part in parts)


@cache
def load_versions() -> dict[str, dict[str, Any]]:
    """Version and numbers of every part."""
    versions: dict[str, dict[str, Any]] = json.loads(VERSIONS.read_text()) if VERSIONS.exists() else {}
    return versions
