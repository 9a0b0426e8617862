"""Text views: one module per environment, one function per wording."""
