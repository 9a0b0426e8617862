"""Wordle: guess a word from coloured letters."""
