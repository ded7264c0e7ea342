"""The ordered log on Spark: the data source ``isotone``, batch and streaming, its sink, and tables made of it."""
