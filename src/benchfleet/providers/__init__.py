"""Where instances are rented: one file a provider."""
