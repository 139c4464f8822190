"""Channels: statements are parsed, checked and compiled (pure), then scheduled and run on Spark."""
