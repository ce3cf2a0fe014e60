"""Orders: what a person asks of a campaign. The command line and the dashboard give them here."""
