import json
import subprocess
import sys
from pathlib import Path

import pytest

from progcl import InputError, Miner, fit, load_config
from progcl.cli.main import main
from progcl.errors import ProgclWarning
from progcl.miners import MINERS, make_miner
from progcl.miners.debiased import DCL
from progcl.registry import build, find, pick
from support.commands import refusal

SMALL = {"data.nodes": 60, "train.epochs": 2, "encoder.hidden": 8, "probe.protocol": "none"}


class Heavier(DCL):
    """A miner with options that our miners do not have."""

    def __init__(self, class_prior: float = 0.1, factor: float = 1.0) -> None:
        super().__init__(class_prior)
        self.factor = factor


def test_names_and_classes() -> None:
    assert find(MINERS, "dcl", "miner") is DCL
    assert find(MINERS, f"{__name__}:Heavier", "miner") is Heavier
    with pytest.raises(InputError, match="did you mean `ring`"):
        pick(MINERS, "rings", "miner")
    with pytest.raises(InputError, match="is no class"):
        find(MINERS, f"{__name__}:SMALL", "miner")
    for name in (f"{__name__}:Nothing", "no.such.module:Class", ":Class", ".relative:Class"):
        with pytest.raises(InputError, match="cannot import"):
            find(MINERS, name, "miner")


def test_a_component_gets_only_the_options_that_it_has() -> None:
    miner = build(Heavier, {"class_prior": 0.2, "low": 3})
    assert isinstance(miner, Heavier)
    assert (miner.class_prior, miner.factor) == (0.2, 1.0)


def test_a_users_miner_with_options_of_its_own() -> None:
    own = {"miner.name": f"{__name__}:Heavier", "miner.options": {"factor": 3.0}}
    config = load_config("csbm", {**SMALL, **own})
    made = make_miner(config.miner)
    assert isinstance(made, Heavier)
    assert (made.class_prior, made.factor) == (0.1, 3.0)
    assert fit(config).losses != fit(load_config("csbm", {**SMALL, "miner.name": "none"})).losses
    with pytest.raises(InputError, match="`Heavier` has no option `facto`\n\nhint: did you mean `factor`"):
        fit(load_config("csbm", {**SMALL, **own, "miner.options": {"facto": 3.0}}))
    with pytest.raises(InputError, match="is no Miner"):
        fit(load_config("csbm", {**SMALL, "miner.name": "progcl.posteriors:BetaMixture"}))


def test_a_users_miner_from_the_folder_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_miners.py").write_text(
        "from progcl import Miner\n\nclass Mine(Miner):\n    def __init__(self, level=1.0):\n"
        "        super().__init__()\n        print('level', level)\n"
    )
    monkeypatch.chdir(tmp_path)
    flags = [f"--{key}={value}" for key, value in SMALL.items()]
    main(["train", "csbm", *flags, "--miner.name=my_miners:Mine", '--miner.options={"level": 2.5}', "--out=run"])
    assert "level 2.5" in capsys.readouterr().out
    assert json.loads(Path("run/result.json").read_text())["config"]["miner"]["options"] == {"level": 2.5}


class Demanding(Miner):
    def __init__(self, level: float) -> None:
        super().__init__()


class Forgetful(Miner):
    def __init__(self) -> None:
        pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"miner.name": f"{__name__}:Demanding"}, "needs an option `level`"),
        ({"miner.name": f"{__name__}:Forgetful"}, "super"),
        ({"miner.name": "builtins:dict"}, "is no Miner\n\nhint: derive the class from progcl.miners.Miner"),
        ({"miner.name": "test_registry.Heavier"}, "write `test_registry:Heavier`"),
        ({"miner.name": "DCL"}, "did you mean `dcl`"),
        ({"miner.name": "ring", "miner.options": {"low": "a"}}, "miner `ring` has no option `options`"),
        ({"miner.name": f"{__name__}:Heavier", "miner.low": 3}, "has no option `low`"),
        ({"miner.name": f"{__name__}:Heavier", "miner.options": "above"}, "names and values"),
        ({"miner.name": "ring", "miner.low": 7}, "miner.low"),
        ({"miner.name": "hcl", "miner.class_prior": 1}, "miner.class_prior"),
    ],
)
def test_mistakes_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit(load_config("csbm", {**SMALL, **options}))


def test_the_oracle_says_that_it_uses_labels() -> None:
    with pytest.warns(ProgclWarning, match="labels: for analysis only"):
        result = fit(load_config("csbm", {**SMALL, "miner.estimator": "oracle", "miner.start_epoch": 1}))
    assert result.mixture is not None


def test_importing_the_package_leaves_the_search_path_alone(tmp_path: Path) -> None:
    code = "import sys; before = list(sys.path); import progcl.miners; sys.exit(sys.path != before)"
    source = str(Path(__file__).parents[1] / "src")
    command = [sys.executable, "-P", "-c", code]
    assert subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": source}).returncode == 0


def test_a_run_with_a_class_of_ones_own_is_opened_again_with_consent_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text("from progcl import Miner\n\nclass Mine(Miner):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    named, resumed = "--miner.name=mine:Mine", ["train", "run/config.yaml", "--out=run", "--resume"]
    main(["train", "csbm", *(f"--{key}={value}" for key, value in SMALL.items()), named, "--out=run"])
    for command in (resumed, ["eval", "run", "--protocol=clean"], ["report", "run"], ["show", "run/config.yaml"]):
        assert "add --allow-code" in refusal(capsys, *command)
    main([*resumed, "--allow-code"])
    main([*resumed, named])
    main(["eval", "run", "--protocol=clean", "--splits=1", "--allow-code"])
    assert "mine:Mine" in capsys.readouterr().out
    with pytest.raises(InputError, match="names `mine:Mine`"):
        fit(load_config("csbm", SMALL), out="run", resume=True)
