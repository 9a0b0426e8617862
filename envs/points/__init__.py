"""Games of four cards or fewer: write a formula of their values that equals a number."""
