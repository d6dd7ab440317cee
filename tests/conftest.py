"""Settings of all tests: hypothesis draws the same examples every time and keeps no files."""

from hypothesis import settings

settings.register_profile("ci", max_examples=40, deadline=None, derandomize=True, database=None)
settings.load_profile("ci")
