"""Reading a campaign file and naming every mistake in it."""
