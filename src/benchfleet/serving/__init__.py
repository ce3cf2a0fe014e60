"""How a server serves: the load client, its journal, and the metrics of what it saw."""
