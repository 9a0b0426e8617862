"""Support: comfort a user, whose distance from satisfied pays every turn."""
