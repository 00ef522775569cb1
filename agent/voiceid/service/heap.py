"""Memory that the C library keeps for later after this process gave it back."""

from __future__ import annotations

import ctypes

_LIBRARY = ctypes.CDLL(None)


def trim_heap() -> None:
    """Return free memory to the system. Nothing happens where the C library cannot (macOS, musl).

    glibc gives back by itself only what is free at the end of a thread's heap: below a small object that stays, the
    buffers of past decisions and connections would count as used for as long as the daemon runs.
    """
    if hasattr(_LIBRARY, "malloc_trim"):
        _LIBRARY.malloc_trim(0)
