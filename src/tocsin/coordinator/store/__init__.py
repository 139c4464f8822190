"""The coordinator's durable state, in a relational database."""
