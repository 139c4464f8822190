"""Carries out the decisions of a subscriber's session: connections, calls and timers."""
