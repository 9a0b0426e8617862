"""Research: a planner calls workers, one agent per call, that look for facts and report."""
