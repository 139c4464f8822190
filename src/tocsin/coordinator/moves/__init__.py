"""Moves: one subscriber goes from a source to a destination broker (pure)."""
