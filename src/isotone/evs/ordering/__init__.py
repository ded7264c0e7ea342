"""Stamps, lines and delivery rules within one daemon view. Implements: [Spread 5]."""
