"""Forms of what publishers send and what the landing log holds (pure)."""
