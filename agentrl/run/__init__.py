"""Runs: the loop, checkpoints, metrics, stages, run directories. Everything that touches files.

Read `loop.py` first. The type that crosses the border is `restored.Run`, a run read back from its
directory.
"""
