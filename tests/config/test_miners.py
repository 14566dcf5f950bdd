"""Options of miners: declared once, carried over, and handed to the miner's class."""

import inspect
from typing import Any

import pytest

from progcl import InputError, load_config
from progcl.config.load import change_miner, to_dict
from progcl.config.miners import MINER_ENTRIES
from progcl.miners import MINERS, make_miner


def test_the_table_agrees_with_the_classes() -> None:
    for name, entry in MINER_ENTRIES.items():
        options: Any = entry.options
        assert options().name == name
        assert set(options.option_names()) <= set(options.meanings()), name
        accepted = inspect.signature(MINERS[name]).parameters
        for key in set(options.option_names()) - {"name", "others"}:
            assert accepted[key].default == getattr(options(), key), f"{name}: {key}"


def test_a_shared_option_has_one_type() -> None:
    types: dict[str, Any] = {}
    for entry in MINER_ENTRIES.values():
        for key, hint in entry.options.types().items():
            assert types.setdefault(key, hint) == hint, key


def test_another_miner_keeps_the_options_it_shares_and_takes_those_meant_for_it() -> None:
    mix = load_config("digits", {"miner.name": "progcl-mix"}).miner
    assert (mix.start_epoch, mix.hardest, mix.synthetic) == (30, 100, 100)  # type: ignore[attr-defined]
    assert change_miner(load_config("digits"), "progcl-mix").miner == mix
    assert "start_epoch" not in to_dict(load_config("digits", {"miner.name": "dcl"}))["miner"]


def test_a_miner_takes_its_options_from_the_configuration() -> None:
    values = {"start_epoch": 7, "hardest": 9, "low": 0.2, "class_prior": 0.3}
    checked = set()
    for name in MINERS:
        overrides = {"miner.name": name, **{f"miner.{option}": value for option, value in values.items()}}
        miner = make_miner(load_config("digits", overrides, strict=False).miner)
        for option in set(MINER_ENTRIES[name].options.option_names()) & set(values):
            assert getattr(miner, option) == values[option], f"{name}: {option}"
            checked.add(option)
    assert checked == set(values)


def test_what_a_miner_has_no_option_for_is_kept_for_the_others() -> None:
    config = load_config("digits", {"miner.name": "dcl"})
    for name in ("progcl-weight", "progcl-mix"):
        kept, direct = to_dict(change_miner(config, name)), to_dict(load_config("digits", {"miner.name": name}))
        assert {**kept["miner"], "others": {}} == {**direct["miner"], "others": {}}
    with pytest.raises(InputError, match="miner `ring` has no option `prior`"):
        load_config("digits", {"miner.others": {"ring": {"prior": 0.1}}})
