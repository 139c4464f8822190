"""Kill brokers, coordinator and cluster under their subscribers, and count every notification afterwards."""
