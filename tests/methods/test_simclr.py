"""SimCLR: its loss against a loop, what it learns, and what is said where data and method do not fit."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from progcl import InputError, fit, load_config
from progcl.config.methods import METHODS
from progcl.config.schema import Config
from progcl.data.prepare import prepare
from progcl.data.synthetic import csbm
from progcl.errors import ProgclWarning
from progcl.evaluation.probe import linear_probe
from progcl.graph.images import ImageBatch
from progcl.methods.simclr import Simclr
from progcl.report.mixture import MixturePlot
from progcl.training.trainer import Trainer
from support.images import draw_textures

TINY: dict[str, Any] = {
    "method.stride": 1,
    "method.min_crop": 0.6,
    "method.jitter": 1.0,
    "method.grayscale": 0.5,
    "encoder.hidden": 16,
    "encoder.projection": 16,
    "loss.tau": 0.2,
    "batch.size": 50,
    "train.epochs": 25,
    "train.lr": 0.01,
    "probe.splits": 3,
    "miner.name": "none",
}


def configure(**changes: Any) -> Config:
    overrides = {**TINY, **{key.replace("__", "."): each for key, each in changes.items()}}
    return load_config("simclr-cifar10", overrides, strict=False)


def naive_nt_xent(h1: Tensor, h2: Tensor, tau: float) -> float:
    """NT-Xent as SimCLR writes it, over 2N points, the positive of i being i ± N."""
    points = [row / row.norm() for row in torch.cat([h1, h2]).double()]
    total = 0.0
    for i, anchor in enumerate(points):
        positive = points[(i + len(h1)) % len(points)]
        others = [math.exp(float(anchor @ other) / tau) for k, other in enumerate(points) if k != i]
        total -= math.log(math.exp(float(anchor @ positive) / tau) / sum(others))
    return total / len(points)


def test_the_loss_is_nt_xent_of_two_views() -> None:
    trainer = Trainer(configure(), prepare(draw_textures(80)))
    method = trainer.method
    assert isinstance(method, Simclr)
    batch = next(iter(trainer.graph.batches(1)))
    assert isinstance(batch, ImageBatch)
    states = {name: method.context.generator(name).get_state() for name in ("view1", "view2")}
    method.set_epoch(1)
    loss = method.loss(batch).item()
    views = []
    for name, state in states.items():
        method.context.generator(name).set_state(state)
        views.append(batch.view(method.options, method.context.generator(name)))
    assert not torch.equal(*views)
    h1, h2 = method.projector(method.encoder(torch.cat(views))).detach().chunk(2)
    assert loss == pytest.approx(naive_nt_xent(h1, h2, 0.2), rel=1e-5)


def test_it_learns_textures_that_neither_pixels_nor_the_untrained_network_show() -> None:
    data = draw_textures(400, noise=0.05)
    result = fit(configure(), data=data)
    assert result.embeddings.shape == (400, 16)
    assert result.score is not None
    assert result.score.mean > 60  # of four classes
    untrained = Trainer(result.config, prepare(data)).embed()
    assert linear_probe(untrained, data, splits=3).mean < 45
    assert linear_probe(data.x, data, splits=1).mean < 45


def test_a_mixture_is_fitted_to_similarities_of_images(tmp_path: Path) -> None:
    """The authors' variant fits two components to one mode, too; the paper's takes every negative for a true one."""
    changes = {"miner__start_epoch": 4, "train__epochs": 8, "probe__protocol": "none"}
    data = draw_textures(120)
    plain = fit(configure(**changes), data=data)
    mined = fit(configure(**changes, miner__name="progcl-weight", miner__variant="released"), data=data)
    with pytest.warns(ProgclWarning, match="they have one mode"):
        unimodal = fit(configure(**changes, miner__name="progcl-weight"), data=data, out=tmp_path / "run")
    assert mined.mixture is not None
    assert not mined.mixture["degenerate"]
    assert mined.losses[:4] == plain.losses[:4]
    assert mined.losses[4:] != plain.losses[4:]
    assert unimodal.losses == pytest.approx(plain.losses)
    plot = MixturePlot.from_json((tmp_path / "run" / "curves.json").read_text())
    assert plot.modes == 1
    assert not plot.fitted
    assert plot.probability is None


def test_raw_pixels_are_embedded() -> None:
    data = draw_textures(60)
    config = load_config("simclr-cifar10", {"method.name": "raw", "batch.size": None, "probe.protocol": "none"})
    assert torch.equal(fit(config, data=data).embeddings, data.x)


@pytest.mark.parametrize("name", [name for name in METHODS if "images" not in METHODS[name].options.supports])
def test_methods_for_graphs_are_refused_on_images(name: str) -> None:
    config = load_config("csbm", {"method.name": name, "miner.name": "none"})
    message = f"method `{name}` reads graphs, not images\n\nhint: --data.name photo, or a method that can: simclr, raw"
    with pytest.raises(InputError) as refused:
        fit(config, data=draw_textures(20))
    assert str(refused.value) == message


def test_a_graph_is_refused() -> None:
    with pytest.raises(InputError, match=r"method `simclr` reads images, not graphs\n\nhint: set --data\.name cifar10"):
        fit(configure(), data=csbm(nodes=40))


def test_options_out_of_range() -> None:
    for key, value in (("min_crop", 0), ("jitter", 2), ("grayscale", -0.1), ("blocks", 0), ("stride", 9)):
        with pytest.raises(InputError, match=f"`method.{key}` needs to be"):
            configure(**{f"method__{key}": value})
