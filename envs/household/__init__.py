"""Household: find, clean, heat, cool and place things."""
