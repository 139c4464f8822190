"""Kill the cluster at the worst moments, and count every record and every result afterwards."""
