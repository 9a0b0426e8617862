"""Dispatch: take a routed worker's attempt, or have it tried again."""
