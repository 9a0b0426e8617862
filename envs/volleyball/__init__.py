"""Drones play volleyball: a match by body rates, rotors or skills, with planners, or one skill."""
