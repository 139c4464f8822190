"""Brokers and sessions: who is alive, who keeps whose session, and where new subscribers go (pure)."""
