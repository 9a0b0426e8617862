"""Screens: click through an interface."""
