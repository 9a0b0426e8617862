"""Foraging: gather food that takes several players to lift, all at once."""
