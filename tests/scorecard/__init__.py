"""The reliability scorecard: sixteen tests of what an alerting system must withstand, and their report."""
