"""The same questions for language policies: credit, contexts and recipes in words."""
