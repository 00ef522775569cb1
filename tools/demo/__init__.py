"""The demonstration: real recorded people, attacks on them, and what the one pipeline says of each."""
