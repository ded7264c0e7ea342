"""A calendar that survives its machines."""
