"""Devices: sharding over a mesh, and machines that programs are compiled for, at hand or not."""
