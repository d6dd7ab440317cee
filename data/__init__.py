"""The embedded digits images (README.md tells their source and licence); read them with `intnet.datasets`."""
