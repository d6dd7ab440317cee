"""A golden pack again by the definition, in plain integers."""
