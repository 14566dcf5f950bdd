"""Measurements that `progcl bench` repeats: speed-ups are ratios of sides that ran by turns, in one run."""
