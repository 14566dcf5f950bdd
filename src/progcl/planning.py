"""What fits into a time budget: walk vectors, epochs, and the map of the report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch_geometric.data import Data

from progcl.budget import MARGIN, Budget, format_seconds
from progcl.config.schema import Config
from progcl.errors import InputError
from progcl.estimate import LARGE_MAP, SMALL_MAP, Estimate, map_seconds
from progcl.training.trainer import Trainer

SCORE = "score"  # a stage
BUDGET_SPLITS = 3  # of the probe
SCORE_SHARE, SLACK = 0.25, 0.1  # of the time that is left: for scoring at most, and at least
WALK_SHARE = 0.35  # of the time that is left, which walk vectors may take
TRIAL_STEPS = 3


def fit_to_budget(
    config: Config, data: Data, budget: Budget, needs: Estimate, resume: bool = False
) -> tuple[Config, list[str]]:
    """The configuration with what the budget has time for, and notes on what is left out.

    As many epochs are planned as fit beside all that cannot be left out; a few steps are timed for that. A run to
    resume keeps its plan, and ends early if it has to.

    Raises:
        InputError: there is no time for one epoch
    """
    notes: list[str] = []
    config = replace(config, probe=replace(config.probe, splits=min(BUDGET_SPLITS, config.probe.splits)))
    _reserve(budget, needs)
    if resume:
        return config, notes
    per_epoch = _time_epoch(config, data, budget)
    walks = needs.seconds["walks"]
    if walks and budget.pace * walks > WALK_SHARE * budget.left():
        notes.append(f"no walk vectors, which would take about {format_seconds(budget.pace * walks)} of the budget")
        config = replace(config, output=replace(config.output, structure=0))
        budget.release("walks")
    return (_plan_epochs(config, budget, per_epoch) if per_epoch else config), notes


def _reserve(budget: Budget, needs: Estimate) -> None:
    """Plan the stages that cannot be left out, and scoring, which can: its time is there if others take longer."""
    smallest = needs.pace * map_seconds(min(SMALL_MAP, needs.nodes), needs.nodes, needs.width, quick=True)
    score = min(SCORE_SHARE * budget.left(), max(BUDGET_SPLITS * needs.split, SLACK * budget.left()))
    stages = {name: needs.seconds[name] for name in ("prepare", "output", "walks", "write")}
    budget.plan({"trial": needs.seconds["prepare"], **stages, SCORE: score, "report": smallest})


def _time_epoch(config: Config, data: Data, budget: Budget) -> float:
    """Seconds of an epoch, from a few steps; 0 if nothing is trained."""
    trial = replace(config, batch=replace(config.batch, steps=min(TRIAL_STEPS, config.batch.steps or 1)))
    with budget.stage("trial"):
        trainer = Trainer(trial, data)
    if trainer.optimizer is None:
        return 0.0
    epochs = trainer.run(2)
    next(epochs)
    start = budget.clock()
    next(epochs)
    return (budget.clock() - start) * (config.batch.steps or 1) / (trial.batch.steps or 1)


def _plan_epochs(config: Config, budget: Budget, per_epoch: float) -> Config:
    """As many epochs as fit into the budget, at most the configured ones."""
    if budget.available() < per_epoch:
        budget.release(SCORE)
    affordable = int(budget.available() / per_epoch)
    if affordable < 1:
        rest = budget.left() - budget.available()
        hint = f"an epoch takes about {per_epoch:.2g} s, all that follows {format_seconds(rest)}: allow more"
        raise InputError("the budget does not suffice for one epoch", hint)
    budget.epoch = per_epoch / budget.pace
    epochs = min(config.train.epochs, affordable)
    miner: Any = config.miner
    if hasattr(miner, "start_epoch"):
        miner = replace(miner, start_epoch=max(1, miner.start_epoch * epochs // config.train.epochs))
    return replace(config, train=replace(config.train, epochs=epochs), miner=miner)


def has_time_to_score(budget: Budget, needs: Estimate) -> bool:
    """Whether a split of the probe fits into the budget."""
    budget.release(SCORE)
    return budget.available() > MARGIN * budget.pace * needs.split


def choose_map(budget: Budget, needs: Estimate) -> dict[str, Any]:
    """Options of `write_report`: the most nodes that there is time for, by t-SNE if possible."""
    budget.release("report")
    for quick in (False, True):
        for shown in (LARGE_MAP, LARGE_MAP // 2, LARGE_MAP // 4, SMALL_MAP):
            seconds = needs.pace * map_seconds(min(shown, needs.nodes), needs.nodes, needs.width, quick)
            if MARGIN * budget.pace * seconds < budget.available():
                return {"max_nodes": shown, "quick": quick}
    return {"max_nodes": SMALL_MAP, "quick": True}
