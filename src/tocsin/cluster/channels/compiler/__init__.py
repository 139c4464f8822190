"""From a statement's text to Spark SQL for all subscriptions at once (pure)."""
