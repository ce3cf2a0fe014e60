"""What verbs print: text for people, and JSON for programs."""
