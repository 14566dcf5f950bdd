"""Contrastive losses, exact for every miner, in memory linear in the nodes."""

from progcl.losses.infonce import InfoNCE, OneWay
from progcl.losses.tiles import Shard

__all__ = ["InfoNCE", "OneWay", "Shard"]
