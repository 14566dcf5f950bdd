"""Measurements that `progcl bench` repeats: every figure is a ratio of sides that ran by turns, in one run."""
