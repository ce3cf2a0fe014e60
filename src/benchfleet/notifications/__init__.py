"""Messages of a run to chats, mail and other services, through Apprise."""
