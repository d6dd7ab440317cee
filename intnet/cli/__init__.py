"""The command line: `main.py` parses and reports errors, one file a command, `terminal.py` shows."""
