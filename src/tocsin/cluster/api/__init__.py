"""The HTTP face of the cluster."""
