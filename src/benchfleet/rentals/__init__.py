"""Renting: the ledger's stream of rentals, what is rented, and the proof that all is returned."""
