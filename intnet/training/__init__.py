"""A run: one step after another, its state and digest, what its tape holds."""
