"""Tool Program: solve a hidden array with tools."""
