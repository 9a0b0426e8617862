"""Frozen Lake: cross a lake with holes, slippery or not."""
