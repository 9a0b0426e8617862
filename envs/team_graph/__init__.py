"""Team Graph: build a team by single edits for a task that needs some roles."""
