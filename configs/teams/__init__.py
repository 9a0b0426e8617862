"""Agents that work together: planners, workers, teams that are built."""
