"""Nim: players take objects from piles in turns."""
