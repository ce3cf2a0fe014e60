"""What a run would be like here, and a campaign shared out over machines known by their reports."""
