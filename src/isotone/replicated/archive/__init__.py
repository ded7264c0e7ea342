"""The ordered log as Parquet segments in a directory or an object store, for analysts and for Spark.

A segment holds consecutive positions; its name carries its range and a digest of its rows, so the listing is the
manifest. Where a segment ends is a function of the log alone: two writers produce equal segments, and it does not
matter which of them writes. Needs pyarrow: ``isotone[trace]``.

Implements: [DESIGN 5], tables and streams. Deviations: none.
"""
