"""Liar's dice: bids on dice of which each player sees its own."""
