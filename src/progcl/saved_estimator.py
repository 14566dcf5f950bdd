"""A fitted `ProGCL` in a safetensors file: the model, the parameters and the fitted attributes."""

from __future__ import annotations

import json
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from progcl.errors import InputError
from progcl.training import checkpoint
from progcl.training.model import read_model

Estimator = TypeVar("Estimator", bound=Any)
PLAIN = ("remarks_", "loss_curve_", "mixture_", "choice_", "n_features_in_")
SAVE_AGAIN = "`ProGCL.save` writes such a file"


def save_estimator(estimator: Any, path: Path) -> None:
    """Write a fitted estimator; a random state that is no number becomes the seed that was used."""
    tensors, values = estimator.model_.state()
    params = estimator.get_params(deep=False)
    if not isinstance(params["random_state"], (Integral, type(None))):
        params["random_state"] = estimator.model_.config.train.seed
    fitted = {name: getattr(estimator, name) for name in PLAIN}
    fitted["feature_names_in_"] = [str(name) for name in getattr(estimator, "feature_names_in_", [])]
    values = {**values, "estimator": json.loads(json.dumps({"params": params, "fitted": fitted}, default=_to_plain))}
    ids = json.dumps([str(name) for name in estimator.ids_]).encode()
    tensors |= {
        "embedding": torch.from_numpy(estimator.embedding_),
        "ids": torch.frombuffer(bytearray(ids), dtype=torch.uint8),
    }
    checkpoint.save(path, (tensors, values))


def load_estimator(estimator: Estimator, path: Path, allow_code: bool = False) -> Estimator:
    """Make an estimator what `save_estimator` wrote."""
    if not path.exists():
        raise InputError(f"there is no file `{path}`", SAVE_AGAIN)
    state = tensors, values = checkpoint.load(path, "save it again")
    if "estimator" not in values:
        raise InputError(f"`{path}` holds no ProGCL", f"{SAVE_AGAIN}; for the folder of a run, `progcl transform`")
    estimator.set_params(**values["estimator"]["params"])
    fitted = values["estimator"]["fitted"]
    names = fitted.pop("feature_names_in_")
    for name, value in (fitted | ({"feature_names_in_": np.array(names, dtype=object)} if names else {})).items():
        setattr(estimator, name, value)
    estimator.embedding_ = tensors["embedding"].numpy()
    estimator.ids_ = np.array(json.loads(tensors["ids"].numpy().tobytes()), dtype=object)
    estimator.model_ = read_model(path, state, allow_code)
    return estimator


def _to_plain(value: Any) -> Any:
    """Numbers of numpy, which JSON does not know."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise InputError(f"a parameter of type {type(value).__name__} cannot be saved", "give plain numbers and texts")
