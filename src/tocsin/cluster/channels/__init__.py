"""Channels: parses, checks and compiles statements (pure), then schedules and runs channels on Spark."""
