"""The subscriber's session (pure): events in, instructions out."""
