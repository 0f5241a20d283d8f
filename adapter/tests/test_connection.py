"""The connection against a real WebSocket server."""

import asyncio
import json

import pytest
from adapter import connection as connecting
from adapter import frames
from adapter.connection import CONNECTED, LOST, REFUSED, Connection
from fake_relay import DeafRelay, FakeRelay


class Side:
    """The adapter's side of a connection, with everything it was told."""

    def __init__(self, relay, token="secret", patience=1.0):
        self.frames, self.states = [], []
        self.connection = Connection(
            relay.url, token, lambda: frames.hello("0.2.0", "i1"), self.frames.append,
            lambda state, reason: self.states.append((state, reason)),
            jitter=lambda low, high: low, scale=0.02, patience=patience)

    async def __aenter__(self):
        self.connection.start()
        return self

    async def __aexit__(self, *_):
        await self.connection.stop()


def play(scene, **relay_arguments):
    async def work():
        async with FakeRelay(**relay_arguments) as relay:
            await asyncio.wait_for(scene(relay), 20)

    asyncio.run(work())


async def until(condition, seconds=5.0):
    end = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < end, "not in time"
        await asyncio.sleep(0.005)


def test_hello_is_the_first_frame_and_the_state_is_told():
    async def scene(relay):
        async with Side(relay) as side:
            assert await side.connection.first_state(5) == CONNECTED
            await relay.until(lambda: relay.heard)
            assert relay.heard[0]["type"] == "hello"
            assert side.states == [(CONNECTED, "")]

    play(scene)


def test_a_wrong_token_is_told_once_and_not_dialled_in_a_loop():
    async def scene(relay):
        async with Side(relay, token="wrong") as side:
            assert await side.connection.first_state(5) == REFUSED
            await asyncio.sleep(0)
            assert side.states == [(REFUSED, "the relay answered HTTP 401: the token is not accepted")]
            assert relay.upgrades == 0

    play(scene)


def test_a_token_that_becomes_valid_connects_without_a_restart():
    async def scene(relay):
        relay.refuse = 401
        async with Side(relay) as side:
            await until(lambda: side.states)
            relay.refuse = None
            await until(lambda: side.connection.connected)
            assert [state for state, _ in side.states] == [REFUSED, CONNECTED]

    play(scene)


def test_a_relay_that_is_away_is_an_outage_with_its_reason():
    async def scene(relay):
        await relay.stop()
        async with Side(relay) as side:
            assert await side.connection.first_state(5) == LOST
            assert "Connect call failed" in side.states[0][1]
            await relay.start()
            await until(lambda: side.connection.connected)

    play(scene)


def test_a_lost_connection_is_told_and_comes_back_with_a_new_hello():
    async def scene(relay):
        async with Side(relay) as side:
            await relay.until(lambda: len(relay.frames("hello")) == 1)
            await relay.sockets[0].close()
            await relay.until(lambda: len(relay.frames("hello")) == 2)
            assert [state for state, _ in side.states] == [CONNECTED, LOST, CONNECTED]
            assert {f["instance"] for f in relay.frames("hello")} == {"i1"}

    play(scene)


def test_an_announced_restart_is_named_as_such():
    async def scene(relay):
        async with Side(relay) as side:
            await relay.until(lambda: relay.heard)
            await relay.send({"type": "restarting"})
            await relay.sockets[0].close(1012)
            await until(lambda: len(side.states) >= 2)
            assert side.states[1] == (LOST, "the relay is restarting")

    play(scene)


def test_a_call_gets_its_own_result_also_when_others_come_first():
    held = asyncio.Event()

    async def answer(frame):
        if frame["arguments"]["n"] == 0:
            await held.wait()
        held.set()
        return {"n": frame["arguments"]["n"]}

    async def scene(relay):
        relay.on_call = lambda frame: None
        async with Side(relay) as side:
            calls = [asyncio.ensure_future(side.connection.call(frames.Call(f"k{n}", "x", {"n": n})))
                     for n in range(3)]
            await relay.until(lambda: len(relay.frames("call")) == 3)
            for n in (2, 0, 1):
                await relay.send({"type": "result", "id": f"k{n}", "result": {"n": n}})
            assert await asyncio.gather(*calls) == [{"n": 0}, {"n": 1}, {"n": 2}]

    play(scene)


def test_a_call_made_while_the_relay_is_away_goes_out_when_it_is_back():
    async def scene(relay):
        await relay.stop()
        async with Side(relay) as side:
            call = asyncio.ensure_future(side.connection.call(frames.Call("k1", "list_agents")))
            await side.connection.first_state(5)
            await relay.start()
            assert await asyncio.wait_for(call, 5) == {"ok": True}

    play(scene)


def test_a_call_whose_connection_is_lost_is_sent_again_with_the_same_id():
    async def scene(relay):
        relay.on_call = lambda frame: None
        async with Side(relay) as side:
            call = asyncio.ensure_future(side.connection.call(frames.Call("k1", "ask_agent", {"to": "b"})))
            await relay.until(lambda: relay.frames("call"))
            await relay.sockets[0].close()
            await relay.until(lambda: len(relay.frames("call")) == 2)
            assert relay.frames("call")[0] == relay.frames("call")[1]
            await relay.send({"type": "result", "id": "k1", "result": {"ok": True, "answer": "42"}})
            assert await asyncio.wait_for(call, 5) == {"ok": True, "answer": "42"}

    play(scene)


def test_a_call_that_was_answered_is_not_sent_again():
    async def scene(relay):
        async with Side(relay) as side:
            await side.connection.call(frames.Call("k1", "list_agents"))
            await relay.sockets[0].close()
            await relay.until(lambda: len(relay.frames("hello")) == 2)
            await side.connection.call(frames.Call("k2", "list_agents"))
            assert [f["id"] for f in relay.frames("call")] == ["k1", "k2"]

    play(scene)


def test_a_call_that_nobody_waits_for_any_more_is_not_sent_again():
    async def scene(relay):
        relay.on_call = lambda frame: None
        async with Side(relay) as side:
            call = asyncio.ensure_future(side.connection.call(frames.Call("k1", "ask_agent")))
            await relay.until(lambda: relay.frames("call"))
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await relay.sockets[0].close()
            await relay.until(lambda: len(relay.frames("hello")) == 2)
            relay.on_call = lambda frame: {"ok": True}
            await side.connection.call(frames.Call("k2", "list_agents"))
            assert [f["id"] for f in relay.frames("call")] == ["k1", "k2"]

    play(scene)


def test_a_result_for_an_unknown_call_harms_nobody():
    async def scene(relay):
        async with Side(relay) as side:
            await relay.until(lambda: relay.heard)
            await relay.send({"type": "result", "id": "never", "result": {}})
            assert await side.connection.call(frames.Call("k1", "list_agents")) == {"ok": True}

    play(scene)


def test_a_frame_of_five_megabytes_arrives():
    async def scene(relay):
        async with Side(relay) as side:
            await relay.until(lambda: relay.heard)
            await relay.wake("r1", "x" * 5_000_000)
            await until(lambda: side.frames)
            assert len(side.frames[0].message) == 5_000_000 and side.connection.connected

    play(scene)


def test_a_call_that_is_too_big_for_the_relay_fails_instead_of_being_sent_for_ever():
    async def scene(relay):
        async def too_big(frame):
            await relay.sockets[0].close(1009)

        relay.on_call = too_big
        async with Side(relay) as side:
            result = await asyncio.wait_for(side.connection.call(frames.Call("k1", "reply", {"a": "x" * 99})), 5)
            assert (result["ok"], result["error"]) == (False, "too_large")

    play(scene)


def test_a_handler_that_fails_takes_no_connection_with_it():
    async def scene(relay):
        async with Side(relay) as side:
            def fail(frame):
                side.frames.append(frame)
                raise ValueError("bad frame")

            side.connection._on_frame = fail
            await relay.until(lambda: relay.heard)
            await relay.wake("r1", "hi")
            await relay.wake("r2", "hi")
            await until(lambda: len(side.frames) == 2)
            assert relay.upgrades == 1

    play(scene)


@pytest.mark.parametrize("upgrades", [True, False], ids=["after the upgrade", "before the upgrade"])
def test_a_relay_that_takes_the_connection_and_never_says_a_word_is_dropped_and_dialled_again(upgrades):
    async def scene():
        async with DeafRelay(upgrades) as relay, Side(relay, patience=0.02) as side:
            await until(lambda: relay.connections >= 3, 15)
            await until(lambda: side.states[-1][0] == LOST or upgrades)
            assert [state for state, _ in side.states[:2]] == ([CONNECTED, LOST] if upgrades else [LOST, LOST])

    asyncio.run(asyncio.wait_for(scene(), 30))


def test_a_relay_that_reads_no_more_is_dropped_although_no_ping_can_be_written():
    async def scene():
        async with DeafRelay(True) as relay, Side(relay, patience=0.02) as side:
            await until(lambda: side.connection.connected)
            # More than the kernel keeps for a reader that does not read.
            call = asyncio.ensure_future(side.connection.call(frames.Call("k1", "reply", {"answer": "x" * 12_000_000})))
            await until(lambda: relay.connections >= 3, 15)
            call.cancel()
            await asyncio.wait_for(side.connection.stop(), 5)

    asyncio.run(asyncio.wait_for(scene(), 30))


def test_silence_of_every_kind_is_noticed_within_a_minute():
    tick = connecting.STUCK_AFTER / 8
    assert connecting.OPEN_WITHIN < 60
    assert connecting.PING_EVERY + connecting.PONG_WITHIN < 60
    assert connecting.STUCK_AFTER + 2 * tick < 60


def test_a_long_frame_to_a_slow_reader_is_not_cut_off(monkeypatch):
    monkeypatch.setattr(connecting, "STUCK_AFTER", 1.0)

    async def scene():
        async with DeafRelay(True, reads_every=0.015) as relay, Side(relay) as side:
            await until(lambda: side.connection.connected)
            side.connection.post("x" * 12_000_000)
            await until(lambda: relay.read > 12_000_000, 20)
            assert relay.took > connecting.STUCK_AFTER and relay.connections == 1

    asyncio.run(asyncio.wait_for(scene(), 30))


def test_waits_grow_to_a_bound_and_are_spread():
    spans = []
    connection = Connection("ws://x", "t", str, print, print, jitter=lambda low, high: spans.append((low, high)) or low)
    for failures in (0, 1, 2, 3, 4, 5, 50):
        connection._delay(failures)
    assert spans == [(0.25, 0.5), (0.5, 1.0), (1.0, 2.0), (2.0, 4.0), (2.5, 5.0), (2.5, 5.0), (2.5, 5.0)]


@pytest.mark.parametrize("noise", ["", "null", "{", '{"type":"news"}', json.dumps({"type": "wake"})])
def test_noise_on_the_line_is_ignored(noise):
    async def scene(relay):
        async with Side(relay) as side:
            await relay.until(lambda: relay.heard)
            await relay.sockets[0].send(noise)
            assert await side.connection.call(frames.Call("k1", "list_agents")) == {"ok": True}
            assert side.frames == []

    play(scene)


def test_no_token_reaches_a_log(caplog):
    caplog.set_level("DEBUG")

    async def scene(relay):
        async with Side(relay, token="hush-hush-token") as side:
            await side.connection.first_state(5)

    play(scene, token="other")
    assert "hush-hush-token" not in "".join(r.getMessage() for r in caplog.records if r.name.startswith("adapter"))
