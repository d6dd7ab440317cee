"""What the definition says of a run's method: the format and the random stream of every path, its updates."""
