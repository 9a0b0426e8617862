"""Hanabi: players help each other, and each sees only the others' cards."""
