"""Maze: reach the goal, full or partial view."""
