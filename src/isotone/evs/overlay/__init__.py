"""The overlay: sites, the links between them, one shortest-path tree for each source, and who needs content."""
