"""Evaluation: fixed task sets, statistics over seeds, and the HTML report.

Read `statistics.py` first, then `runs.py`, which reads run directories.
"""
