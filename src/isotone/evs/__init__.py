"""Extended virtual synchrony: links, overlay, ordering, membership, groups and sessions of one group of daemons."""
