"""Shared Bank: admit results of parallel teams to a memory that all of them read."""
