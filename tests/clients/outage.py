"""Measures what an outage costs; for people, and run by test_outage.py.

    python outage.py RELAY_BINARY [--outages 0.5,5,25] [--bots 500] [--bots-outage 5]

The relay is killed with SIGKILL while one caller waits over MCP (the official SDK, which comes back with Last-Event-ID) and one
over the WebSocket (which sends its call again, with the pauses of `hermes-bridge listen`). Printed: seconds from the moment
at which the relay listens again to each caller's answer; the bot is back and answers at once. Then so many bots lose
the relay together and come back with the same pauses: seconds from the start until they are, and connections refused after it.
Needs the packages mcp (1.26) and websockets.
"""

import argparse
import asyncio
import json
import random
import re
import signal
import socket
import tempfile
import time
from pathlib import Path

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from websockets.asyncio.client import connect

FIRST_RETRY, LAST_RETRY = 0.25, 10.0


class Relay:
    """One directory and one port, started again and again."""

    def __init__(self, binary, directory, agents):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.binary, self.config, self.process, self.listens = binary, Path(directory) / "bridge.toml", None, 0.0
        lines = [f'listen = "127.0.0.1:{self.port}"']
        lines += [f'[[agents]]\nname = "{name}"\ntoken = "{self.token(name)}"' for name in agents]
        self.config.write_text("\n".join(lines) + "\n")

    @staticmethod
    def token(name):
        return f"tok-{name}-0123456789"

    async def start(self):
        self.process = await asyncio.create_subprocess_exec(
            self.binary, "serve", "--config", self.config, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        while not re.match(rb"listening on", await self.process.stdout.readline()):
            pass
        self.listens = time.monotonic()

    async def kill(self):
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    def connect(self, name):
        return connect(
            f"ws://127.0.0.1:{self.port}/bridge/connect",
            additional_headers={"Authorization": f"Bearer {self.token(name)}"},
            proxy=None,
            open_timeout=30,
        )


async def bot(relay, hold):
    """Answers when it may; is back as soon as there is a relay."""
    known = {}
    while True:
        try:
            async with relay.connect("bob") as ws:
                await ws.send(json.dumps({"type": "hello", "instance": "one", "features": []}))
                sending = asyncio.create_task(answer(ws, known, hold))
                try:
                    async for frame in ws:
                        frame = json.loads(frame)
                        if frame["type"] == "wake":
                            await ws.send(json.dumps({"type": "received", "request_id": frame["request_id"]}))
                            known[frame["request_id"]] = frame
                finally:
                    sending.cancel()
        except (OSError, Exception):  # whatever it is, it is tried again
            await asyncio.sleep(0.02)


async def answer(ws, known, hold):
    while True:
        await hold.wait()
        for request in list(known):
            call = {"type": "call", "id": request, "tool": "reply", "arguments": {"request_id": request, "answer": "here"}}
            await ws.send(json.dumps(call))
        await asyncio.sleep(0.05)


async def over_mcp(relay):
    headers = {"Authorization": f"Bearer {relay.token('alice')}"}
    async with streamablehttp_client(f"http://127.0.0.1:{relay.port}/mcp", headers=headers, sse_read_timeout=300) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            result = await session.call_tool("ask_agent", {"to": "bob", "message": f"mcp {random.random()}"})
            assert json.loads(result.content[0].text)["answer"] == "here", result
            return time.monotonic()


async def over_websocket(relay):
    call = {"type": "call", "id": str(random.random()), "tool": "ask_agent", "arguments": {"to": "bob", "message": f"ws {random.random()}"}}
    retry = FIRST_RETRY
    while True:
        try:
            async with relay.connect("carol") as ws:
                retry = FIRST_RETRY
                await ws.send(json.dumps(call))
                async for frame in ws:
                    frame = json.loads(frame)
                    if frame["type"] == "result":
                        assert frame["result"]["answer"] == "here", frame
                        return time.monotonic()
        except (OSError, Exception):
            pass
        await asyncio.sleep(retry * random.uniform(0.5, 1))
        retry = min(retry * 2, LAST_RETRY)


async def outage(binary, seconds):
    with tempfile.TemporaryDirectory() as directory:
        relay, hold = Relay(binary, directory, ["alice", "bob", "carol"]), asyncio.Event()
        await relay.start()
        answering = asyncio.create_task(bot(relay, hold))
        await asyncio.sleep(0.5)
        callers = [asyncio.create_task(over_mcp(relay)), asyncio.create_task(over_websocket(relay))]
        await asyncio.sleep(2)
        await relay.kill()
        hold.set()
        await asyncio.sleep(seconds)
        await relay.start()
        mcp, ws = [at - relay.listens for at in await asyncio.wait_for(asyncio.gather(*callers), 120)]
        print(f"outage of {seconds:>4} s: answered {mcp:.2f} s (MCP) and {ws:.2f} s (WebSocket) after the relay listens again", flush=True)
        answering.cancel()
        await relay.kill()


async def one_of_many(relay, name, back, refused):
    retry = FIRST_RETRY
    while True:
        began = time.monotonic()
        try:
            async with relay.connect(name) as ws:
                retry = FIRST_RETRY
                back[name] = time.monotonic()
                async for _ in ws:
                    pass
        except (OSError, Exception) as error:
            if relay.listens and began > relay.listens:
                refused.append(repr(error))
        await asyncio.sleep(retry * random.uniform(0.5, 1))
        retry = min(retry * 2, LAST_RETRY)


async def crowd(binary, count, seconds):
    with tempfile.TemporaryDirectory() as directory:
        names = [f"bot{n}" for n in range(count)]
        relay, back, refused = Relay(binary, directory, names), {}, []
        await relay.start()
        bots = [asyncio.create_task(one_of_many(relay, name, back, refused)) for name in names]
        while len(back) < count:
            await asyncio.sleep(0.1)
        relay.listens = 0.0
        await relay.kill()
        await asyncio.sleep(seconds)
        back.clear()
        refused.clear()
        await relay.start()
        while len(back) < count:
            assert time.monotonic() - relay.listens < 120, f"{len(back)} of {count} are back"
            await asyncio.sleep(0.05)
        took = sorted(at - relay.listens for at in back.values())
        p50, p99 = took[count // 2], took[int(count * 0.99) - 1]
        print(f"{count} bots after an outage of {seconds} s: p50 {p50:.2f} s, p99 {p99:.2f} s, last {took[-1]:.2f} s; refused {len(refused)} {refused[:1]}", flush=True)
        for one in bots:
            one.cancel()
        await relay.kill()


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("relay")
    parser.add_argument("--outages", default="0.5,5,25")
    parser.add_argument("--bots", type=int, default=500)
    parser.add_argument("--bots-outage", type=float, default=5)
    given = parser.parse_args()
    for seconds in filter(None, given.outages.split(",")):
        await outage(given.relay, float(seconds))
    if given.bots:
        await crowd(given.relay, given.bots, given.bots_outage)


if __name__ == "__main__":
    asyncio.run(main())
