"""A run on disk: its folder, checkpoints, records and reports, and tensors and models as files."""
