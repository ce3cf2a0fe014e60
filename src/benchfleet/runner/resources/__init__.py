"""The devices of a run as machines come and go, and those that are not to be used."""
