"""Where a run computes."""

import pytest
import torch

from progcl import InputError
from progcl.training.device import choose_device


def test_auto_takes_the_best_device_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device() == torch.device("cpu")
    with pytest.raises(InputError, match="torch finds no `cuda` device"):
        choose_device("cuda")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device() == torch.device("mps")


def test_processes_of_a_host_share_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for rank, index in (("0", 0), ("1", 1), ("2", 0)):
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert choose_device() == torch.device("cuda", index)
