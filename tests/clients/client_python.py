"""One official client as a process: the MCP Python SDK, 1.x (Hermes pins it) or 2.x, whichever is installed here.

Reads commands as JSON lines and answers with JSON lines, so that one set of tests drives every SDK (see client.py).
"""

import asyncio
import contextlib
import json
import sys

import anyio
import mcp.types
from mcp.client.streamable_http import streamable_http_client

try:
    import httpx2 as httpx
    from mcp import Client, MCPError as McpError
except ImportError:
    import httpx
    from mcp import ClientSession, McpError

    Client = None


def say(**line):
    print(json.dumps(line), flush=True)


@contextlib.asynccontextmanager
async def connect(options):
    """The SDK's client, and what the relay said of itself."""
    headers = {"Authorization": f"Bearer {options['token']}"}
    timeout = httpx.Timeout(10, read=options["read_timeout"])
    async with httpx.AsyncClient(headers=headers, timeout=timeout, trust_env=False) as http:
        transport = streamable_http_client(options["url"], http_client=http)
        if Client is not None:
            async with Client(transport, mode=options["mode"]) as client:
                yield client, client.protocol_version, client.server_info, client.instructions, None
            return
        if version := options.get("protocol"):
            mcp.types.LATEST_PROTOCOL_VERSION = version
        async with transport as (read, write, session_id), ClientSession(read, write) as client:
            hello = await client.initialize()
            yield client, hello.protocolVersion, hello.serverInfo, hello.instructions, session_id()


async def main(options):
    async with connect(options) as (client, protocol, server, instructions, session):
        say(
            id=0,
            result={
                "protocol": protocol,
                "server": server and server.name,
                "instructions": instructions,
                "session": session,
            },
        )
        running = {}
        loop = asyncio.get_running_loop()
        async with anyio.create_task_group() as tasks:
            while line := await loop.run_in_executor(None, sys.stdin.readline):
                command = json.loads(line)
                if command["op"] == "abandon":
                    running.pop(command["call"]).cancel()
                    continue
                running[command["id"]] = scope = anyio.CancelScope()
                tasks.start_soon(run, client, command, scope)
            tasks.cancel_scope.cancel()


async def run(client, command, scope):
    with scope:
        try:
            say(id=command["id"], result=await perform(client, command))
        except McpError as e:
            say(id=command["id"], failure={"code": e.error.code, "message": e.error.message})


async def perform(client, command):
    if command["op"] == "ping":
        await client.send_ping()
        return {}
    if command["op"] == "tools":
        tools = (await client.list_tools()).tools
        return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    result = await client.call_tool(command["tool"], command["arguments"])
    result = result.model_dump(mode="json", by_alias=True)
    texts = [block["text"] for block in result["content"]]
    return {"isError": result["isError"], "texts": texts, "structured": result["structuredContent"]}


def innermost(error):
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    try:
        asyncio.run(main(json.loads(sys.argv[1])))
    except BaseException as e:  # The last line says what ended the process; the test judges it.
        say(id=None, failure={"code": None, "message": innermost(e)})
        sys.exit(1)
