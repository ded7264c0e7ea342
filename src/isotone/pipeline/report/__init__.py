"""One page about runs: verdicts, views over time, latency, throughput, the thesis' tables and figures beside ours."""
