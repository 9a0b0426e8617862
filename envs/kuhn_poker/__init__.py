"""Kuhn's poker: three cards, two or more players, one hand or several."""
