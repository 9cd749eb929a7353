"""What a fit costs on this machine: growth, profiles, memory, start-up, and the same numbers as before."""
