"""Leduc's poker: six cards, two rounds."""
