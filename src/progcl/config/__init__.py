"""Configurations: sections, options of methods and miners, presets, and how they are read."""

from progcl.config.load import change_miner, load_config, to_dict, to_yaml
from progcl.config.schema import Config

__all__ = ["Config", "change_miner", "load_config", "to_dict", "to_yaml"]
