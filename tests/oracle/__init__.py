"""Expected values that are no part of the definition: cost models, and a second way through a bucket."""
