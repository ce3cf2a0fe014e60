"""Where results are kept beside the folder that they were made in."""
