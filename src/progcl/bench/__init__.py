"""Benchmarks of `progcl bench`: speed-ups are ratios of sides that are timed by turns, in one run."""
