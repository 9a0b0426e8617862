"""Environments with a planner, who sets subgoals, and an executor, who acts."""
