"""Relay: agents add a number each, one after another, and hear what was said before."""
