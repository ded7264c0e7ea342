"""The ISIS toolkit under test: all tools at every site, through crashes, joins, migrations and recoveries."""
