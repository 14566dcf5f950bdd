"""ProGCL: node embeddings without labels, with negatives chosen by probability."""

from __future__ import annotations

import os
import random
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from progcl.clusters import find_clusters
    from progcl.config import Config, load_config
    from progcl.errors import InputError
    from progcl.links import hold_out_links, score_links, score_pairs, top_links
    from progcl.losses import InfoNCE
    from progcl.miners import DCL, HCL, Miner, MoCHi, ProGCLMix, ProGCLWeight, Ring
    from progcl.neighbors import all_neighbors
    from progcl.posteriors import BetaMixture, GaussianMixture
    from progcl.run import fit
    from progcl.sklearn import ProGCL

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch asks at its first tensor: huge pages, where Linux has them
__version__ = version("progcl")
__all__ = [
    "DCL",
    "HCL",
    "BetaMixture",
    "Config",
    "GaussianMixture",
    "InfoNCE",
    "InputError",
    "Miner",
    "MoCHi",
    "ProGCL",
    "ProGCLMix",
    "ProGCLWeight",
    "Ring",
    "all_neighbors",
    "find_clusters",
    "fit",
    "hold_out_links",
    "load_config",
    "score_links",
    "score_pairs",
    "top_links",
]

_HOMES = {
    "BetaMixture": "posteriors",
    "Config": "config",
    "DCL": "miners",
    "GaussianMixture": "posteriors",
    "HCL": "miners",
    "InfoNCE": "losses",
    "InputError": "errors",
    "Miner": "miners",
    "MoCHi": "miners",
    "ProGCL": "sklearn",
    "ProGCLMix": "miners",
    "ProGCLWeight": "miners",
    "Ring": "miners",
    "all_neighbors": "neighbors",
    "find_clusters": "clusters",
    "fit": "run",
    "hold_out_links": "links",
    "load_config": "config",
    "score_links": "links",
    "score_pairs": "links",
    "top_links": "links",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `progcl --help` does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'progcl' has no attribute '{name}'")
    state = random.getstate()  # of which rich, that others import, takes a number
    try:
        return getattr(import_module(f"progcl.{_HOMES[name]}"), name)
    finally:
        random.setstate(state)
