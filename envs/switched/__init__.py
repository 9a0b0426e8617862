"""Planned environments in which a third agent decides when to plan anew."""
