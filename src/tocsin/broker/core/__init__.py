"""The broker's machine (pure): events in, instructions out."""
