"""What runs cost: latencies, throughput, view changes, silences, traffic and skew, one row per run and dimension."""
