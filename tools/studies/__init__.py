"""Offline reruns of the studies this project builds on."""
