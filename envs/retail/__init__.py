"""Retail: a shop's support desk, its customer and its database."""
