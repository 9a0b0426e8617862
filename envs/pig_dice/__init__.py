"""Pig: roll on, or hold what the turn has brought."""
