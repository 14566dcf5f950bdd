"""No label reaches an embedding: permuting all of them changes no bit."""

import pytest
import torch
from torch import Tensor

from progcl import fit
from progcl.config.methods import METHODS
from progcl.data.synthetic import csbm
from progcl.miners import MINERS
from support.images import data_for
from support.runs import small

DATA = csbm(nodes=90, degree=12, homophily=0.9, signal=3)
UNSUPERVISED = [name for name, entry in METHODS.items() if not entry.options.needs_labels]
RUNS = [*((method, "progcl-weight") for method in UNSUPERVISED), *(("grace", miner) for miner in MINERS)]
RUNS.remove(("grace", "progcl-weight"))  # is there twice


def embed(method: str, miner: str, permuted: bool) -> Tensor:
    data = data_for(method, DATA).clone()
    if permuted:
        data.y = data.y[torch.randperm(90, generator=torch.Generator().manual_seed(0))]
    mined = "miner" in METHODS[method].options.supports
    options = {"miner__name": miner if mined else "none", "miner__start_epoch": 2, "train__epochs": 4}
    return fit(small(method__name=method, **options, probe__protocol="none"), data=data).embeddings


@pytest.mark.parametrize(("method", "miner"), RUNS)
@pytest.mark.filterwarnings("ignore:no mixture fitted")
def test_permuted_labels_change_no_bit(method: str, miner: str) -> None:
    assert torch.equal(embed(method, miner, permuted=False), embed(method, miner, permuted=True))
