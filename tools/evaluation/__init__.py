"""What ``tools/evaluate.py`` measures: one module a subcommand, and what they share."""
