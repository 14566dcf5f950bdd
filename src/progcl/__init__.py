"""ProGCL: node embeddings without labels, with negatives chosen by probability."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from progcl.config import load_config
    from progcl.contrast import InfoNCE, Miner
    from progcl.errors import InputError
    from progcl.estimator import ProGCL
    from progcl.miners import DCL, HCL, MoCHi, ProGCLMix, ProGCLWeight, Ring
    from progcl.mixtures import BetaMixture, GaussianMixture
    from progcl.schema import Config
    from progcl.train import fit

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
    "BetaMixture": "mixtures",
    "Config": "schema",
    "DCL": "miners",
    "GaussianMixture": "mixtures",
    "HCL": "miners",
    "InfoNCE": "contrast",
    "InputError": "errors",
    "Miner": "contrast",
    "MoCHi": "miners",
    "ProGCL": "estimator",
    "ProGCLMix": "miners",
    "ProGCLWeight": "miners",
    "Ring": "miners",
    "fit": "train",
    "load_config": "config",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `progcl --help` does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'progcl' has no attribute '{name}'")
    return getattr(import_module(f"progcl.{_HOMES[name]}"), name)
