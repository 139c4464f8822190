"""The operators' page, which the coordinator's process serves beside its API."""
