"""Guided research: a planner writes a plan in advance, an executor opens the sources."""
