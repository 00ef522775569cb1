"""The resident daemon: one process that owns microphone, models and vault, and a Unix socket for everybody else."""
