"""ProGCL: node embeddings without labels, with negatives chosen by probability."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from progcl.config import Config, load_config
    from progcl.errors import InputError
    from progcl.losses import InfoNCE
    from progcl.miners import DCL, HCL, Miner, MoCHi, ProGCLMix, ProGCLWeight, Ring
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
    "fit",
    "load_config",
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
    "fit": "run",
    "load_config": "config",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `progcl --help` does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'progcl' has no attribute '{name}'")
    return getattr(import_module(f"progcl.{_HOMES[name]}"), name)
