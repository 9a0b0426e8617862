"""Blackjack: one hand against a dealer."""
