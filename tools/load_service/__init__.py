"""Many clients at once against a real daemon, some of them hostile: ``python -m tools.load_service``."""
