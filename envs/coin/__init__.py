"""Coin: find the coin in a house of rooms."""
