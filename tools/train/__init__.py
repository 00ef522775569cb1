"""Offline training commands, one module a role."""
