"""Delegation: a planner calls workers for two facts in one turn, who work at the same time."""
