"""Published models and published engines."""
