"""Tool calls and their patience."""

import asyncio
import threading

from adapter.calls import ToolCalls
from adapter.courier import Courier
from adapter.desk import Desk
from adapter.outbox import Outbox
from test_desk import Hermes
from adapter.frames import Wake


class Line:
    """A connection of which the test decides what it answers."""

    def __init__(self):
        self.connected, self.calls, self.answer = True, [], None

    async def call(self, call):
        self.calls.append(call)
        while self.answer is None:
            await asyncio.sleep(0.005)
        return self.answer(call)


def scene(work, patience=0.0):
    async def run():
        line, box = Line(), Outbox(None)
        courier = Courier(box, line.call)
        desk = Desk(Hermes(), box, lambda frame: None, courier.deliver)
        calls = ToolCalls(line, desk, courier, dict.fromkeys(["ask_agent", "reply", "list_agents"], patience))
        result = await asyncio.wait_for(work(calls, line, box, desk), 10)
        await courier.stop()
        return result

    return asyncio.run(run())


def test_the_relays_own_result_comes_back():
    async def work(calls, line, box, desk):
        line.answer = lambda call: [{"name": "b", "online": True}]
        return await calls.run("list_agents", {}), line.calls[0].tool

    assert scene(work) == ([{"name": "b", "online": True}], "list_agents")


def test_the_request_that_the_turn_answers_goes_along():
    async def work(calls, line, box, desk):
        line.answer = lambda call: {"ok": True}
        await calls.run("ask_agent", {"to": "b", "message": "x"}, during="r1")
        return line.calls[0].during

    assert scene(work) == "r1"


def test_a_relay_that_is_away_ends_the_call_with_words_for_the_model():
    async def work(calls, line, box, desk):
        line.connected = False
        return await calls.run("ask_agent", {"to": "b", "message": "x"})

    result = scene(work)
    assert (result["ok"], result["error"]) == (False, "relay_unreachable")
    assert "asking again with the same words joins it" in result["message"]


def test_a_slow_answer_is_waited_for_as_long_as_the_relay_is_there():
    async def work(calls, line, box, desk):
        task = asyncio.ensure_future(calls.run("ask_agent", {"to": "b", "message": "x"}))
        await asyncio.sleep(0.6)
        assert not task.done()
        line.answer = lambda call: {"ok": True, "answer": "42"}
        return await task

    assert scene(work) == {"ok": True, "answer": "42"}


def test_a_reply_counts_as_the_answer_and_closes_the_question():
    async def work(calls, line, box, desk):
        line.answer = lambda call: {"ok": True}
        desk.question(Wake("r1", "c1", "anna", "hi"))
        result = await calls.run("reply", {"request_id": "r1", "answer": "42"})
        return result, desk.open_requests(), box.undelivered()

    assert scene(work) == ({"ok": True}, [], [])


def test_a_reply_while_the_relay_is_away_is_kept_and_the_model_is_told():
    async def work(calls, line, box, desk):
        line.connected = False
        result = await calls.run("reply", {"request_id": "r1", "answer": "42"})
        return result["ok"], result["queued"], [a.request_id for a in box.undelivered()]

    assert scene(work) == (True, True, ["r1"])


def test_a_reply_that_the_relay_cannot_record_is_kept_and_the_model_is_told():
    async def work(calls, line, box, desk):
        line.answer = lambda call: {"ok": False, "error": "store_unavailable"}
        result = await calls.run("reply", {"request_id": "r1", "answer": "42"})
        return result["ok"], result["queued"], [a.request_id for a in box.undelivered()]

    assert scene(work) == (True, True, ["r1"])


def test_a_blank_reply_is_left_to_the_relay_to_refuse():
    async def work(calls, line, box, desk):
        line.answer = lambda call: {"ok": False, "error": "empty_answer"}
        return await calls.run("reply", {"request_id": "r1", "answer": "  "}), box.undelivered()

    assert scene(work) == ({"ok": False, "error": "empty_answer"}, [])


def on_a_thread(interrupted, act):
    async def work(calls, line, box, desk):
        loop, out = asyncio.get_running_loop(), []
        thread = threading.Thread(
            target=lambda: out.append(calls.from_thread(loop, "ask_agent", {}, "", interrupted)))
        thread.start()
        act(line)
        await asyncio.to_thread(thread.join, 8)
        return out[0], line.calls

    return scene(work)


def test_a_worker_thread_gets_the_result():
    result, _ = on_a_thread(lambda: False, lambda line: setattr(line, "answer", lambda call: {"ok": True}))
    assert result == {"ok": True}


def test_an_interrupted_turn_stops_waiting():
    result, calls = on_a_thread(lambda: True, lambda line: None)
    assert result["error"] == "relay_unreachable" and "interrupted" in result["message"] and len(calls) == 1
