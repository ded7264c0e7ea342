"""Reliable links: ring (a LAN site), hop (WAN over datagrams) and tcp, behind one contract. Implements: [Spread 4]."""
