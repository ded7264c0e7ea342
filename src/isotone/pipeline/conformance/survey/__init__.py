"""The first look at a run: one pass over each record, bundles compared once; most runs are judged by it alone."""
