"""A run has the same bits whatever the default type is, and leaves global state as it was."""

import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from progcl import fit, load_config
from progcl.config.methods import METHODS
from progcl.errors import ProgclWarning, warn
from progcl.precision import single_precision
from progcl.result import Result

TINY: dict[str, Any] = {"data.nodes": 60, "train.epochs": 2, "encoder.hidden": 8, "encoder.projection": 8}


def run(**changes: Any) -> Result:
    options = {**TINY, "miner.name": "none", "probe.splits": 1} | {
        key.replace("__", "."): value for key, value in changes.items()
    }
    return fit(load_config("csbm", options, strict=False))


def global_state() -> tuple[Any, ...]:
    numpy_state = np.random.get_state(legacy=False)["state"]["key"].tolist()  # noqa: NPY002
    numbers = (torch.get_rng_state().tolist(), numpy_state, random.getstate())
    threads = (torch.get_num_threads(), torch.get_num_interop_threads())
    return *numbers, *threads, list(warnings.filters), torch.get_default_dtype(), torch.is_grad_enabled()


@pytest.mark.parametrize("name", [name for name in METHODS if name != "simclr"])  # it reads images
def test_fit_leaves_global_state_alone(name: str) -> None:
    before = global_state()
    run(method__name=name)
    assert global_state() == before


@pytest.mark.parametrize(
    "options",
    [
        {"miner__name": "progcl-weight", "miner__start_epoch": 1},
        {"miner__name": "mochi", "miner__start_epoch": 0, "batch__size": 20},
        {"encoder__name": "hops", "method__drop_edges": [0.0, 0.0]},
        {"method__name": "merit"},
        {"method__name": "spectral"},
    ],
)
def test_the_default_type_does_not_change_a_run(options: dict[str, Any]) -> None:
    expected = run(**options)
    torch.set_default_dtype(torch.float64)
    try:
        result = run(**options)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(result.embeddings, expected.embeddings)
    assert result.losses == expected.losses
    assert result.score == expected.score


def test_the_default_type_comes_back_after_an_error() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(ZeroDivisionError), single_precision():
            _ = 1 / (torch.get_default_dtype() != torch.float32)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_warning_is_shown_every_time_without_a_filter() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        for _ in range(3):
            warn("again")
    assert [str(each.message) for each in caught] == ["again"] * 3
    assert {(each.category, each.filename) for each in caught} == {(ProgclWarning, __file__)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ProgclWarning)
        with pytest.raises(ProgclWarning, match="once"):
            warn("once", stacklevel=99)  # above the first frame is the first
