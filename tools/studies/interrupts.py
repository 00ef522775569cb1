"""Imported by every local Dask worker: Ctrl-C is for the process that it works for, which ends it."""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
