"""The HTTP face of the coordinator."""
