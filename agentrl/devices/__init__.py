"""Devices: machines that programs are compiled for, at hand or not."""
