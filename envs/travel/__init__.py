"""Travel: search for offers and book a trip that keeps to its budget and hours."""
