"""The HTTP API of the cluster."""
