"""Brokers and sessions: liveness of brokers, owners of sessions, and placement of new subscribers (pure)."""
