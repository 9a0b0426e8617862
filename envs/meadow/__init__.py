"""Meadow: walk to a place, as everybody would without being told: not over the grass."""
