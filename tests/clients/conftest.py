"""Fixtures of the tests with official clients."""

import pytest

from client import KINDS
from rig import Relay


@pytest.fixture
def start(tmp_path_factory):
    """Starts relays with the settings that a test needs, and stops them after it."""
    relays = []

    def start(**settings):
        relays.append(Relay(tmp_path_factory.mktemp("relay"), **settings))
        return relays[-1]

    yield start
    for relay in relays:
        relay.stop()


@pytest.fixture(scope="module", params=KINDS, ids=str)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def relay(kind, tmp_path_factory):
    """One relay for all tests of one SDK: quick to give up on a silent bot, so that no test waits for long."""
    relay = Relay(
        tmp_path_factory.mktemp("relay"),
        ask_timeout_ms=4_000,
        limits={"max_message_bytes": 1_000, "max_answer_bytes": 1_000},
    )
    yield relay
    relay.stop()


@pytest.fixture(scope="module")
def alice_and_bob(relay, kind):
    return [client.connected() for client in [relay.client(kind, name) for name in ("alice", "bob")]]


@pytest.fixture(scope="module")
def alice(alice_and_bob):
    return alice_and_bob[0]


@pytest.fixture(scope="module")
def bob(alice_and_bob):
    """Bob's MCP client, through which he replies; his socket is `bobs_socket`."""
    return alice_and_bob[1]


@pytest.fixture
def bobs_socket(relay):
    bot = relay.bot("bob")
    yield bot
    bot.close()
