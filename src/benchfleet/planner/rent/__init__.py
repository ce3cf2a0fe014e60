"""Which machines to rent, and what that costs."""
