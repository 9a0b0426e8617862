"""Checked Sum: a solver answers, a verifier approves or has it answer again."""
