"""Data work past one process, on Spark: traces as tables, conformance. Needs the extra ``isotone[pipeline]``."""
