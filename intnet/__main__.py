"""`python -m intnet`: the command line."""

import sys

from intnet.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
