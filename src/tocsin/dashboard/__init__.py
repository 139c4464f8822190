"""The operators' page: what the coordinator's process serves beside its API, for people."""
