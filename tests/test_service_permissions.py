"""Who may do what, by the kernel's word."""

from __future__ import annotations

import os
import pwd
import socket

import pytest

from voiceid.errors import EnrolmentError, ServiceError
from voiceid.service.methods import METHOD_OF
from voiceid.service.peers import Peer, peer_of
from voiceid.service.permissions import Permissions, is_login_of_another
from voiceid.service.protocol import RequestError
from voiceid.service.schema import Fault
from voiceid.settings import ServiceSettings

RP = "shop.example.org"
ADMIN, OWNER, KIOSK, OTHER = (Peer(uid, uid, 1) for uid in (4_000_001, 4_000_002, 4_000_003, 4_000_004))
RULES = Permissions(ServiceSettings(admins=(ADMIN.uid,), relying_parties={RP: [KIOSK.uid]}))


def may(peer, method, *, owner=OWNER.uid, **params):
    try:
        RULES.check(peer, METHOD_OF[method], {"user": "ada", "relying_party": RP, **params}, owner)
    except RequestError as error:
        assert error.fault is Fault.NOT_PERMITTED
        return False
    return True


def test_the_kernel_says_who_connects():
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_of(ours) == Peer(os.getuid(), os.getgid(), os.getpid())


def test_a_socket_without_a_peer_is_refused():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other, pytest.raises(ServiceError):
        peer_of(other)


@pytest.mark.parametrize("method", sorted(METHOD_OF))
def test_admins_may_everything(method):
    assert may(ADMIN, method, owner=None)
    assert may(Peer(0, 0, 1), method, owner=None)
    assert may(Peer(os.geteuid(), 0, 1), method, owner=None)


@pytest.mark.parametrize(
    "method", ["verify", "users.show", "users.delete", "credentials.revoke", "lockout.show", "pin.set", "pin.enter"]
)
def test_a_users_own_matters_are_for_the_owner(method):
    assert may(OWNER, method)
    assert not may(OTHER, method)
    assert not may(KIOSK, method)
    assert not may(OTHER, method, owner=None), "an unknown user is answered as a forbidden one"


@pytest.mark.parametrize("method", ["reload", "metrics", "lockout.reset", "privacy.set"])
def test_the_device_is_for_admins(method):
    assert not may(OWNER, method) and not may(KIOSK, method)


def test_envelopes_are_for_whom_the_admin_lists_for_that_relying_party():
    assert may(KIOSK, "authenticate")
    assert not may(KIOSK, "authenticate", relying_party="bank.example.org")
    assert not may(OWNER, "authenticate")


def test_registering_takes_both_the_owner_and_the_grant():
    both = Permissions(ServiceSettings(relying_parties={RP: [OWNER.uid]}))
    both.check(OWNER, METHOD_OF["credentials.register"], {"user": "ada", "relying_party": RP}, OWNER.uid)
    assert not may(OWNER, "credentials.register")
    assert not may(KIOSK, "credentials.register")


def test_everybody_may_enrol_a_new_name_but_not_over_somebody():
    assert may(OTHER, "enrol", owner=None, user="a new name")
    assert may(OWNER, "enrol") and may(OWNER, "enrol", replace=True) and may(OWNER, "enrol", renew=True)
    assert may(OTHER, "enrol"), "only the end of the enrolment tells that the name is another's"
    for change in ("replace", "renew"):
        assert not may(OTHER, "enrol", **{change: True}) and not may(OTHER, "enrol", owner=None, **{change: True})


def test_nobody_enrols_under_the_login_of_somebody_else():
    root = pwd.getpwuid(0).pw_name
    for spelling in (root, root.upper(), root.capitalize()):
        assert is_login_of_another(spelling, OTHER.uid)
        assert not may(OTHER, "enrol", owner=None, user=spelling)
    assert not is_login_of_another(root, 0)
    with pytest.raises(EnrolmentError):
        is_login_of_another("../etc", OTHER.uid)
