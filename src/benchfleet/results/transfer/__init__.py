"""Upload to and download from result stores."""
