"""ISIS: process groups with CBCAST, ABCAST and GBCAST, above boundary B4."""
