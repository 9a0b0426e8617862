"""Decisions on two levels: planner and executor, strategy and skills."""
