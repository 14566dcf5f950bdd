"""The training loop and what it keeps: checkpoints and the run folder."""
