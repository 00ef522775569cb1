"""Acoustic features: stateless, vectorised NumPy."""
