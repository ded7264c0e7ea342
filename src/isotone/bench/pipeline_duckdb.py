"""The main properties in DuckDB on the same silver table, to have something to compare Spark with. Optional.

Per group and view: who had which bundle, against the members (2.7, 2.13, 2.14 and 2.18 rest on it); duplicates (2.5),
integrity (2.6), stamps (D2.7), FIFO (2.11.2) and agreed order (2.13.2). No witnesses, no liveness, no signals.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

_ROWS = """
CREATE TEMP TABLE said AS SELECT node, incarnation, "index", kind IN ('ssend', 'sdeliver') AS b,
  kind IN ('send', 'ssend') AS is_send, coalesce(sender, clients[1]) AS sender, "first", "count", service,
  CASE WHEN kind IN ('ssend', 'sdeliver') THEN [''] ELSE groups END AS groups, content, stamp, clients
  FROM silver WHERE kind IN ('send', 'ssend', 'deliver', 'sdeliver');
CREATE TEMP TABLE views AS SELECT node, incarnation, "index", kind = 'sview' AS b,
  CASE WHEN kind = 'sview' THEN '' ELSE groups[1] END AS "group", hash(view, members) AS view, len(members) AS size
  FROM silver WHERE kind IN ('view', 'sview');
"""
_CHECKS = {
    "integrity": """SELECT count(*) FROM (SELECT 1 FROM said GROUP BY b, sender, "first"
      HAVING count(*) FILTER (is_send) != 1 OR min(content) != max(content)
      OR min(hash(service, groups, "count")) != max(hash(service, groups, "count")))""",
    "stamps": """SELECT count(*) FROM (SELECT 1 FROM said WHERE NOT is_send AND service > 0
      GROUP BY b, sender, "first" HAVING min(stamp) != max(stamp))
      UNION ALL SELECT count(*) FROM (SELECT 1 FROM said WHERE NOT is_send AND service > 0
      GROUP BY b, stamp HAVING min(hash(sender, "first")) != max(hash(sender, "first")))""",
    "fifo and duplicates": """SELECT count(*) FROM (SELECT "first" <= lag("first") OVER
      (PARTITION BY b, node, incarnation, sender ORDER BY "index") AS wrong FROM said WHERE NOT is_send) WHERE wrong""",
    "agreed order": """SELECT count(*) FROM (SELECT stamp <= max(CASE WHEN service > 3 THEN stamp END) OVER
      (PARTITION BY b, node, incarnation ORDER BY "index" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS wrong
      FROM said WHERE NOT is_send AND service > 0) WHERE wrong""",
    "views": """WITH single AS (SELECT *, unnest(groups) AS "group" FROM said WHERE NOT is_send AND service > 0)
      SELECT count(*) FROM (SELECT 1 FROM single ASOF JOIN views USING (b, node, incarnation, "group", "index")
      GROUP BY b, sender, "first", "group", view HAVING sum(len(clients)) < max(size))""",
}


def has_duckdb() -> bool:
    """Whether it is installed."""
    return find_spec("duckdb") is not None


def judge_with_duckdb(silver: Path, threads: int) -> dict[str, int]:
    """By check: how many bundles or rows need a closer look."""
    database = import_module("duckdb").connect()
    database.execute(f"SET threads = {threads}")
    files = str(silver / "**" / "*.parquet").replace("'", "''")
    database.execute(f"CREATE VIEW silver AS SELECT * FROM read_parquet('{files}')")
    database.execute(_ROWS)
    return {name: sum(row[0] for row in database.execute(query).fetchall()) for name, query in _CHECKS.items()}
