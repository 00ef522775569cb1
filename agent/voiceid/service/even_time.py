"""Refusals that take the same time whatever was looked up for them."""

from __future__ import annotations

import asyncio
import time

STEP = 0.1
"""Seconds: more than a look into the vault takes on a slow card."""


async def even_out(began: float) -> None:
    """Wait until a whole number of steps has passed since ``began``, in seconds on the monotonic clock."""
    await asyncio.sleep(-(time.monotonic() - began) % STEP)
