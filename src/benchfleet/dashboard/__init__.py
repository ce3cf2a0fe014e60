"""The web dashboard: pages, an event stream and a JSON API over the read model of each campaign."""
