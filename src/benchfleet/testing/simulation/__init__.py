"""What a simulated fleet is made of: virtual time, hosts, slots, the wire to a ledger, a disk."""
