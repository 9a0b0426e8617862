"""Treasures: a square with a treasure whose reward depends on what happened before."""
