"""A reliable link over one byte stream. Implements: [Spread 4.2]."""

from isotone.evs.links.tcp.link import TcpLink
from isotone.evs.links.tcp.settings import TcpSettings
from isotone.evs.links.tcp.wire import Hello, pack_hello, read_hello

__all__ = ["Hello", "TcpLink", "TcpSettings", "pack_hello", "read_hello"]
