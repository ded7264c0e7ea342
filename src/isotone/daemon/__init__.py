"""The asyncio server: one daemon in a real process."""
