"""One workload for Isotone and its peers: three members of a LAN, the same order checked, the same figures taken."""
