"""Launches: one description of jobs, carried out by this machine or by a cluster.

`launch.py` is the description, and the type that crosses this package's border. A back end is a
module with the functions of `backend.Backend`: it prints what it would submit, submits it, and says
what became of it.
"""
