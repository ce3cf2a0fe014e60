"""Places that results are put to, away from the host that made them; one file each."""
