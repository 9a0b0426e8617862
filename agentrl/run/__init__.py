"""Runs: the loop, checkpoints, metrics, stages, run directories. Everything that touches files.

Read `loop.py` first. Other packages use `restored.Run`, a run read back from its directory.
"""
