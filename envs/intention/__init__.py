"""Intention: ask for the details that a vague request leaves out."""
