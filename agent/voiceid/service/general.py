"""The methods about the daemon itself: hello, status, cancel, subscribe, reload, metrics."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from voiceid import __version__
from voiceid.service.connection import Call
from voiceid.service.protocol import RequestError
from voiceid.service.schema import Fault
from voiceid.service.wire import PROTOCOL


@dataclass(frozen=True, slots=True)
class Condition:
    """How the daemon is at one moment."""

    microphone: str
    activation: str
    busy: bool
    device: str | None
    for_admins: dict[str, Any]
    """Users, clients, models and problems; empty for others."""


class General:
    """Handlers; the daemon gives the functions that know."""

    def __init__(
        self,
        condition: Callable[[Call], Awaitable[Condition]],
        reload: Callable[[], Awaitable[tuple[str, ...]]],
        metrics: Callable[[], str],
    ) -> None:
        self._condition, self._reload, self._metrics = condition, reload, metrics
        self._began = time.monotonic()

    def handlers(self) -> dict[str, Callable[[Call], Awaitable[dict[str, Any]]]]:
        """The handler of each method."""
        return {
            "hello": self.hello,
            "status": self.status,
            "cancel": self.cancel,
            "subscribe": self.subscribe,
            "reload": self.reload,
            "metrics": self.metrics,
        }

    async def hello(self, call: Call) -> dict[str, Any]:
        if call.params["protocol"] != PROTOCOL:
            wanted = call.params["protocol"]
            raise RequestError(
                Fault.VERSION, f"the daemon speaks protocol {PROTOCOL}, the client {wanted}; upgrade one"
            )
        return {"protocol": PROTOCOL, "version": __version__, "admin": call.admin}

    async def status(self, call: Call) -> dict[str, Any]:
        condition = await self._condition(call)
        device = {} if condition.device is None else {"device": condition.device}
        return {
            "protocol": PROTOCOL,
            "version": __version__,
            "microphone": condition.microphone,
            "activation": condition.activation,
            "busy": condition.busy,
            "uptime": round(time.monotonic() - self._began, 1),
            **device,
            **condition.for_admins,
        }

    async def cancel(self, call: Call) -> dict[str, Any]:
        own = call.params["request"] == str(call.request.request_id)
        return {"cancelled": not own and call.connection.cancel(call.params["request"])}

    async def subscribe(self, call: Call) -> dict[str, Any]:
        call.connection.subscribed = True
        return {"done": True}

    async def reload(self, call: Call) -> dict[str, Any]:
        return {"done": True, "restart": list(await self._reload())}

    async def metrics(self, call: Call) -> dict[str, Any]:
        return {"text": self._metrics()}
