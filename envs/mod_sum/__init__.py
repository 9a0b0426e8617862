"""Mod sum: choose a team of simulated workers for a task."""
