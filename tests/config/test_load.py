from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch_geometric.data import Data

from progcl import Config, InputError, load_config
from progcl.config.load import PRESETS, known_keys, to_dict, to_yaml
from progcl.data.datasets import EMBEDDED, PUBLISHED
from progcl.methods import METHODS
from progcl.miners import MINERS
from progcl.nn.encoders import ENCODERS
from progcl.training.trainer import Trainer, make_miner


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_loads_and_builds(name: str) -> None:
    config = load_config(name)
    assert config.data.name in (*PUBLISHED, *EMBEDDED)
    edges = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    Trainer(config, Data(x=torch.rand(5, 5), edge_index=edges))


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_short_and_name_their_source(name: str) -> None:
    lines = PRESETS[name].read_text().splitlines()
    assert len(lines) <= 35
    assert lines[0].startswith("# ")
    assert "Source:" in lines[1]


@pytest.mark.parametrize(
    ("name", "tau", "lr", "epochs", "hidden", "activation", "start", "prior"),
    [
        ("photo", 0.3, 0.01, 2500, 128, "rrelu", 400, 0.15),
        ("computers", 0.2, 0.01, 2000, 128, "rrelu", 400, 0.05),
        ("cs", 0.2, 0.0001, 1000, 256, "rrelu", 400, 0.05),
        ("wikics", 0.4, 0.01, 4000, 256, "prelu", 50, 0.05),
    ],
)
def test_presets_hold_the_papers_table(
    name: str, tau: float, lr: float, epochs: int, hidden: int, activation: str, start: int, prior: float
) -> None:
    config = load_config(name)
    assert (config.loss.tau, config.train.lr, config.train.epochs) == (tau, lr, epochs)
    assert (config.encoder.hidden, config.encoder.activation) == (hidden, activation)
    assert (config.miner.start_epoch, config.miner.prior, config.miner.iterations) == (start, prior, 10)


def test_overrides_by_dotted_key() -> None:
    config = load_config("photo", {"train.epochs": 5, "miner.name": "progcl-mix", "method.drop_edges": [0.1, 0.2]})
    assert (config.train.epochs, config.miner.name, config.method.drop_edges) == (5, "progcl-mix", (0.1, 0.2))
    assert config.miner.prior == 0.15  # the rest of the section stays


def test_a_data_set_without_preset_has_the_defaults() -> None:
    assert load_config("dblp") == Config(data=type(Config().data)(name="dblp"))


def test_a_file_round_trip(tmp_path: Path) -> None:
    config = load_config("photo", {"train.epochs": 7})
    path = tmp_path / "mine.yaml"
    path.write_text(to_yaml(config))
    assert load_config(str(path)) == config
    assert yaml.safe_load(to_yaml(config)) == to_dict(config)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("train.epoch", 5, "did you mean `train.epochs`"),
        ("trian.epochs", 5, "did you mean `train`"),
        ("train.epochs", "many", "`train.epochs` needs int"),
        ("train.epochs", 0, "`train.epochs` needs to be at least 1"),
        ("loss.tau", 0, r"`loss.tau` needs to be in \[0.03, 10\]"),
        ("method.drop_edges", [0.1, 1.5], r"`method.drop_edges` needs to be in \[0, 1\]"),
        ("method.drop_edges", [0.1], "`method.drop_edges`"),
        ("method.centrality", "fame", "`method.centrality`"),
        ("encoder.hops", [0, 2, 1], r"`encoder.hops` must rise .*\[0, 2, 1\]"),
        ("encoder.hops", [], "`encoder.hops` must rise"),
        ("encoder.hops", 4, "`encoder.hops`"),
        ("miner.prior", 2, "`miner.prior`"),
        ("miner.variant", "official", "`miner.variant`"),
        ("probe.protocol", "dirty", "`probe.protocol`"),
        ("train", 5, "section `train` needs to hold options"),
    ],
)
def test_bad_keys_and_values(key: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_config("digits", {key: value})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", "holds no sections"),
        ("a: [", "is not YAML"),
        ("traim: {}", "unknown section"),
        ("1: {}", "unknown section"),
        ("", "no sections"),
    ],
)
def test_bad_files(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        load_config(str(path))
    with pytest.raises(InputError, match="there is no file"):
        load_config(str(tmp_path / "absent.yaml"))


def test_configurations_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        load_config("digits").train.epochs = 3  # type: ignore[misc]


def test_names_are_looked_up_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="did you mean `progcl-mix`"):
        make_miner(load_config("digits", {"miner.name": "progcl-mixx"}))
    assert set(ENCODERS) == {"gcn", "sage", "mlp", "hops"}
    assert set(METHODS) == {"grace", "gca", "merit"}


@pytest.mark.parametrize("name", MINERS)
def test_a_miner_takes_its_options_from_the_configuration(name: str) -> None:
    miner = make_miner(load_config("digits", {"miner.name": name, "miner.start_epoch": 7, "miner.hardest": 9}))
    for option, value in (("start_epoch", 7), ("hardest", 9)):
        assert getattr(miner, option, value) == value


def test_known_keys_are_dotted() -> None:
    assert {"train.epochs", "miner.name", "data.homophily"} <= set(known_keys())
