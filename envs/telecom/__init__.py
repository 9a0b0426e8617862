"""Telecom: a support desk and a customer with different tools."""
