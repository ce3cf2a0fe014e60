"""Models behind a server: protocols, the client, and the adapters over them."""
