"""What the options of every method have, and what a run may ask of a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from progcl.config.options import Options
from progcl.errors import InputError, in_range


class Ability(NamedTuple):
    """Something a run may ask of its method: what is said of a method without it, and the way to do without."""

    lack: str
    remedy: str


ABILITIES = {
    "batches": Ability("needs the whole graph in a step", "--batch.size null"),
    "inductive": Ability("embeds only the graph that it was trained on", "--data.inductive false"),
    "processes": Ability("runs in one process", "start it without torchrun"),
    "miner": Ability("has no negatives for a miner", "--miner.name none"),
    "anchors": Ability("cannot contrast a part of the nodes", "--train.anchors null"),
    "hop-table": Ability("passes messages in every step", "--encoder.name gcn"),
    "weights": Ability("takes all edges alike, whatever their weights", "--data.weight none"),
    "images": Ability("reads graphs, not images", "--data.name photo"),
}


@dataclass(frozen=True)
class MethodOptions(Options):
    """What every method has.

    Args:
        name: a name that `progcl ls methods` lists, or your own as package.module:Class
    """

    supports: ClassVar[frozenset[str]] = frozenset()  # of ABILITIES
    needs_labels: ClassVar[bool] = False  # trained with labels, once for each split of section `probe`

    @property
    def takes_miner(self) -> bool:
        """Whether there are negatives for a miner, with these options."""
        return "miner" in self.supports

    def require(self, ability: str) -> None:
        """Raise `InputError` if the method does not support what a run asks for."""
        if ability in self.supports:
            return
        from progcl.config.methods import METHODS  # which imports this module

        able = [name for name, entry in METHODS.items() if ability in entry.options.supports]
        lack, remedy = ABILITIES[ability]
        raise InputError(f"method `{self.name}` {lack}", f"{remedy}, or a method that can: {', '.join(able)}")


@dataclass(frozen=True)
class HalfHopOptions(MethodOptions):
    """Methods whose encoder may pass messages in training.

    Args:
        half_hop: probability of a node that its incoming edges have a slow node in a step of training, which delays
            messages by a layer (HalfHop, for encoders gcn and sage)
        half_hop_alpha: share of the source in a slow node's features; the rest is the target's
    """

    half_hop: float = 0.0
    half_hop_alpha: float = 0.5

    def __post_init__(self) -> None:
        in_range("half_hop", self.half_hop, 0, 1, "a probability: 0 adds no slow nodes")
        in_range("half_hop_alpha", self.half_hop_alpha, 0, 1, "HalfHop uses 0.5")
