"""Search for good cells of a sweep: grid, random, TPE and successive halving.

`space.py` has the type that crosses this package's border, the space and its cells; `trials.py` is
the record of what was proposed and what came of it, in Optuna's journal file; `driver.py` runs the
cells rung by rung; `flags.py` is its face on the command line. Read `driver.py` first.
"""
