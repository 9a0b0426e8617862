"""Launches: one description of jobs, carried out by this machine or by a cluster.

`launch.py` is the description, and the type that crosses this package's border; `cells.py` makes
jobs of a grid, `check.py` binds their configs. Read `reports.py` first: it submits what is due, and
says what became of it. A back end is a module with the functions of `backend.Backend`: it prints
what it would submit, submits it, and says what its scheduler knows.
"""
