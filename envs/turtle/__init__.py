"""Turtle: a story whose facts are found by questions with yes or no."""
