"""What each page shows, as plain values; templates and the API render them."""
