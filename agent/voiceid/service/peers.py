"""Who is at the other end of a Unix socket, by the kernel's word."""

from __future__ import annotations

import socket
import struct
import sys
from dataclasses import dataclass

from voiceid.errors import ServiceError

_LINUX = struct.Struct("3i")
_MAC = struct.Struct("Iih16I")
_MAC_LEVEL, _MAC_PEERCRED, _MAC_PEERPID = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that made the connection, at the moment when it did."""

    uid: int
    gid: int
    pid: int


def peer_of(connection: socket.socket) -> Peer:
    """The peer of a connected Unix socket (``SO_PEERCRED``, on macOS ``LOCAL_PEERCRED``).

    Raises:
        ServiceError: the system does not tell.
    """
    try:
        if sys.platform == "darwin":
            return _mac_peer(connection)
        data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX.size)
        pid, uid, gid = _LINUX.unpack(data)
    except (OSError, struct.error) as error:
        raise ServiceError(f"the system does not say who connects ({error})") from error
    if uid < 0:
        raise ServiceError("the system does not say who connects (another user namespace)")
    return Peer(uid, gid, pid)


def _mac_peer(connection: socket.socket) -> Peer:
    """``struct xucred``: version, uid, number of groups, groups; the first group is the effective one."""
    data = connection.getsockopt(_MAC_LEVEL, _MAC_PEERCRED, _MAC.size)
    _, uid, _, gid, *_ = _MAC.unpack(data)
    (pid,) = struct.unpack("i", connection.getsockopt(_MAC_LEVEL, _MAC_PEERPID, 4))
    return Peer(uid, gid, pid)
