"""Is this revision slower than an earlier one: `make compare`."""
