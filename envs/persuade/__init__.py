"""Persuade: find the arguments that move one person."""
