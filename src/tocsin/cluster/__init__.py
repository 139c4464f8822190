"""The data cluster: datasets, feeds, channels and results on Spark. Only this package imports pyspark."""
