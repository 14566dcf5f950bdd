"""Presets, files and overrides: merged, validated, written, and refused with a hint."""

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch_geometric.data import Data

from progcl import Config, InputError, Miner, load_config
from progcl.config.load import PRESETS, to_dict, to_yaml
from progcl.data.datasets import BUILTIN, PUBLISHED
from progcl.methods import method_type
from progcl.miners import MINERS, Ring, make_miner
from progcl.posteriors import make_posterior
from progcl.training.trainer import Trainer
from support.images import data_for


def test_every_preset_builds_its_method_and_miner() -> None:
    edges = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    for name in PRESETS:
        config = load_config(name)
        assert config.data.name in (*PUBLISHED, *BUILTIN), name
        graph = Data(x=torch.rand(5, 5), edge_index=edges, y=torch.arange(5) % 2)
        method = Trainer(config, data_for(config.method.name, graph)).method
        assert type(method) is method_type(config.method.name), name
        assert {type(miner) for miner in method.miners()} == {MINERS[config.miner.name]} - {Miner}, name


def test_presets_are_short_and_name_their_source() -> None:
    for name, path in PRESETS.items():
        lines = path.read_text().splitlines()
        assert len(lines) <= 35, name
        assert lines[0].startswith("# "), name
        assert "Source:" in lines[1], name


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
    miner = to_dict(config)["miner"]
    assert (miner["start_epoch"], miner["prior"], miner["iterations"]) == (start, prior, 10)


def test_overrides_by_dotted_key() -> None:
    config = load_config("photo", {"train.epochs": 5, "miner.name": "progcl-mix", "method.drop_edges": [0.1, 0.2]})
    assert (config.train.epochs, config.miner.name) == (5, "progcl-mix")
    assert to_dict(config)["method"]["drop_edges"] == [0.1, 0.2]
    assert to_dict(config)["miner"]["prior"] == 0.15  # the rest of the section stays


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
        ("method.centrality", "degree", "method `grace` has no option `centrality`\n\nhint: `gca` has it"),
        ("method.fame", 1, "unknown key `method.fame`"),
        ("miner.hardest", 3, "`progcl-mix` and `mochi` have it: --miner.name progcl-mix"),
        ("miner.start_epoch", -1, "`miner.start_epoch` needs to be at least 0"),
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
        ("train: &a {epochs: 3}\nloss: *a", "aliases"),
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
        load_config("digits", {"miner.name": "progcl-mixx"})
    with pytest.raises(InputError, match="did you mean `merit`"):
        load_config("digits", {"method.name": "merrit"})


# Code from strangers


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("miner: {name: 'subprocess:Popen', options: {args: [touch, HERE]}}", "subprocess:Popen"),
        ("miner: {name: progcl-weight, estimator: 'subprocess:Popen'}", "subprocess:Popen"),
        ("miner: {name: none, others: {'evil:Miner': {}}}", "evil:Miner"),
        ("miner: {name: none, others: {ring: {estimator: 'evil:E'}}}", "evil:E"),
        ("method: {name: 'evil:Method'}", "evil:Method"),
    ],
)
def test_a_file_names_no_code_unless_it_is_allowed(
    content: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    (tmp_path / "x.yaml").write_text(content.replace("HERE", str(tmp_path / "run")))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"`x.yaml` names `{name}`.*\n\nhint: only if you trust it: add --allow-code"):
        load_config("x.yaml")
    assert {path.name for path in tmp_path.iterdir()} == {"evil.py", "x.yaml"}


def test_consent_is_given_by_an_argument_or_by_the_name_itself(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("miner: {name: 'subprocess:Popen', options: {args: 'a:b'}}")
    for options in ({"allow_code": True}, {"allow_code": ["subprocess:Popen"]}):
        assert load_config(path, **options).miner.name == "subprocess:Popen"
    assert load_config(path, {"miner.name": "subprocess:Popen"}).miner.name == "subprocess:Popen"
    with pytest.raises(InputError, match="names `subprocess:Popen`"):
        load_config(path, {"miner.name": "mine:Own"})
    path.write_text("miner: {name: 'progcl.miners.ring:Ring', options: {low: 0.2}}")
    assert isinstance(make_miner(load_config(path).miner), Ring)


def test_what_is_no_subclass_is_not_called(tmp_path: Path) -> None:
    touch = {"miner.options": {"args": ["touch", str(tmp_path / "called")]}}
    for name in ("subprocess:Popen", "os:system", "progcl.posteriors:BetaMixture"):
        with pytest.raises(InputError, match=r"is no (Miner|class)"):
            make_miner(load_config("csbm", {"miner.name": name, **touch}).miner)
    with pytest.raises(InputError, match="needs fit and predict_proba"):
        make_posterior("subprocess:Popen", args=["touch", str(tmp_path / "called")])
    assert list(tmp_path.iterdir()) == []


def test_a_file_with_a_checksum_is_as_it_was_written_or_has_none(tmp_path: Path) -> None:
    path, config = tmp_path / "config.yaml", load_config("photo")
    path.write_text("# a remark\n" + to_yaml(config, checksum=True))
    assert load_config(path) == config
    edited = path.read_text().replace("epochs: 2500", "epochs: 2501")
    path.write_text(edited)
    with pytest.raises(InputError, match=r"its checksum does not match\n\nhint: if you have edited it, remove"):
        load_config(path)
    path.write_text("\n".join(line for line in edited.splitlines() if not line.startswith("checksum")))
    assert load_config(path).train.epochs == 2501
