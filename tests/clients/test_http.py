"""What the HTTP side promises to proxies, clients and browsers, looked at byte by byte."""

import http.client
import json
import socket
import time

import pytest

from rig import OWNER, TOKENS, Relay

BOTH = "application/json, text/event-stream"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}},
}
KEEP_ALIVE = 0.4


def ask(message, **arguments):
    arguments = {"to": "bob", "message": message, **arguments}
    return {"jsonrpc": "2.0", "id": "q-1", "method": "tools/call", "params": {"name": "ask_agent", "arguments": arguments}}


def modern(request):
    """The same call as a client of 2026-07-28 makes it: body and headers."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = request.get("params", {})
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": request["method"]}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    return {**request, "params": {**params, "_meta": meta}}, headers


@pytest.fixture(scope="module")
def relay(tmp_path_factory):
    relay = Relay(tmp_path_factory.mktemp("relay"), keep_alive_ms=int(KEEP_ALIVE * 1_000))
    yield relay
    relay.stop()


@pytest.fixture
def request_of(relay):
    """Sends one request; returns status, headers (names in lower case) and body."""

    def request_of(method, path="/mcp", body=None, token=TOKENS["alice"], **headers):
        connection = http.client.HTTPConnection("127.0.0.1", relay.port, timeout=15)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, bytes):
            headers = {"Content-Type": "application/json", "Accept": BOTH, **headers}
            body = json.dumps(body).encode()
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        answer = response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        connection.close()
        return answer

    return request_of


class Stream:
    """A POST to /mcp on a raw socket, read as it arrives."""

    def __init__(self, relay, request, agent="alice", headers=None):
        body = json.dumps(request).encode()
        head = {
            "Host": f"127.0.0.1:{relay.port}",
            "Authorization": f"Bearer {TOKENS[agent]}",
            "Content-Type": "application/json",
            "Accept": BOTH,
            "Content-Length": str(len(body)),
            **(headers or {}),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        self.began = time.monotonic()
        self.socket = socket.create_connection(("127.0.0.1", relay.port), timeout=15)
        self.socket.sendall(f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body)
        self.read = b""

    def until(self, mark):
        """Everything up to and with `mark`, and how long after the request it was there."""
        while mark not in self.read:
            more = self.socket.recv(65_536)
            assert more, f"the stream ended before {mark}: {self.read}"
            self.read += more
        before, self.read = self.read.split(mark, 1)
        return (before + mark).decode(), time.monotonic() - self.began

    def head(self):
        text, after = self.until(b"\r\n\r\n")
        status, *lines = text.strip().split("\r\n")
        return int(status.split()[1]), {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}, after

    def close(self):
        self.socket.close()


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_a_waiting_ask_has_its_status_line_in_two_seconds_then_comments_then_the_answer(relay, era):
    bot = relay.bot("bob")
    request, headers = modern(ask(f"slow {era}")) if era == "2026-07-28" else (ask(f"slow {era}"), {})
    stream = Stream(relay, request, headers=headers)
    wake = bot.wake()
    status, head, after = stream.head()
    assert status == 200
    assert after < 2
    assert head["content-type"] == "text/event-stream"
    assert head["x-accel-buffering"] == "no"
    assert head["cache-control"] == "no-cache"
    assert "mcp-session-id" not in head
    times = [stream.until(b":\n\n")[1] for _ in range(5)]
    gaps = [later - earlier for earlier, later in zip(times[1:], times[2:])]
    # A loaded machine is late at times; never may a silence be far beyond the interval.
    assert all(gap < KEEP_ALIVE + 1 for gap in gaps), gaps
    assert sum(gaps) > KEEP_ALIVE * len(gaps) * 0.7, gaps
    reply = {"name": "reply", "arguments": {"request_id": wake["request_id"], "answer": "after\na while"}}
    done = Stream(relay, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": reply}, agent="bob")
    assert done.head()[0] == 200
    done.close()
    stream.until(b"data: ")
    event, _ = stream.until(b"\n\n")
    message = json.loads(event)
    assert message["id"] == "q-1"
    assert json.loads(message["result"]["content"][0]["text"])["answer"] == "after\na while"
    assert stream.until(b"0\r\n\r\n")
    stream.close()
    bot.close()


def test_a_quick_answer_is_a_stream_of_one_event_that_no_proxy_buffers(relay):
    stream = Stream(relay, ask("who?", to="nobody"))
    status, head, after = stream.head()
    assert (status, head["content-type"], head["x-accel-buffering"]) == (200, "text/event-stream", "no")
    assert after < 2
    stream.until(b"data: ")
    event, _ = stream.until(b"\n\n")
    assert json.loads(json.loads(event)["result"]["content"][0]["text"])["error"] == "unknown_agent"
    stream.close()


def test_no_session_is_given_out(request_of):
    status, headers, body = request_of("POST", body=INITIALIZE)
    assert status == 200
    assert "mcp-session-id" not in headers
    assert b'"protocolVersion":"2025-11-25"' in body


def test_the_list_of_tools_is_not_for_shared_caches(request_of):
    request, headers = modern({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    status, _, body = request_of("POST", body=request, **headers)
    assert status == 200
    assert b'"cacheScope":"private"' in body


def test_a_proxy_may_speak_http_2(relay):
    with socket.create_connection(("127.0.0.1", relay.port), timeout=15) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0")
        # The first frame back is SETTINGS: three bytes of length, then its type, 4.
        assert connection.makefile("rb").read(4)[3] == 4


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT", "PATCH", "OPTIONS"])
def test_mcp_takes_nothing_but_post(request_of, method):
    status, headers, _ = request_of(method, Accept="text/event-stream")
    assert status == 405
    assert headers["allow"] == "POST"


@pytest.mark.parametrize("token", [None, "wrong", "", TOKENS["alice"] + "x"])
@pytest.mark.parametrize("path", ["/mcp", "/bridge/connect"])
def test_a_missing_or_wrong_token_is_401_and_says_which_scheme(request_of, path, token):
    method = "POST" if path == "/mcp" else "GET"
    status, headers, body = request_of(method, path, body=INITIALIZE if method == "POST" else None, token=token)
    assert status == 401
    assert headers["www-authenticate"] == "Bearer"
    assert "token is needed" in json.loads(body)["error"]


@pytest.mark.parametrize("path", ["/mcp", "/bridge/connect"])
@pytest.mark.parametrize("key", ["token", "access_token"])
def test_a_token_in_the_address_is_ignored(request_of, path, key):
    method = "POST" if path == "/mcp" else "GET"
    body = INITIALIZE if method == "POST" else None
    assert request_of(method, f"{path}?{key}={TOKENS['alice']}", body=body, token=None)[0] == 401


@pytest.mark.parametrize("path", ["/mcp", "/health", "/ui/api/state", "/bridge/connect", "/nothing"])
def test_a_foreign_host_or_origin_is_403_everywhere(request_of, path):
    for foreign in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        status, _, body = request_of("GET", path, **foreign)
        assert status == 403, foreign
        assert json.loads(body)["error"]


def test_the_page_of_the_relay_itself_may_call(request_of, relay):
    assert request_of("GET", "/health", Origin=f"http://127.0.0.1:{relay.port}")[0] == 200


@pytest.mark.parametrize("path", ["/", "/nothing", "/mcp/", "/mcp/x", "/health/x", "/bridge", "/bridge/connect/", "/%00", "/.."])
def test_an_unknown_path_is_404_as_json(request_of, path):
    status, headers, body = request_of("GET", path)
    assert status == 404
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == {"error": "there is nothing at this address"}


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/health"), ("DELETE", "/ready"), ("PUT", "/ui/api/state"), ("POST", "/bridge/connect"), ("GET", "/mcp")],
)
def test_a_wrong_method_is_405_as_json(request_of, method, path):
    status, headers, body = request_of(method, path, token=OWNER if path.startswith("/ui") else TOKENS["alice"])
    assert status == 405
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == {"error": "this address does not take this method"}
    if path in ("/mcp", "/bridge/connect"):
        assert headers["allow"] == ("POST" if path == "/mcp" else "GET")


MIB = 1 << 20


def test_a_body_of_more_than_4_mib_is_413(request_of):
    status, _, body = request_of("POST", body=ask("x" * 4 * MIB))
    assert status == 413
    assert json.loads(body) == {"error": "the body has more than 4194304 bytes"}


def test_a_chunked_body_of_more_than_4_mib_is_413(relay):
    stream = Stream(relay, {}, headers={"Transfer-Encoding": "chunked", "Content-Length": "0"})
    stream.close()
    connection = http.client.HTTPConnection("127.0.0.1", relay.port, timeout=15)
    headers = {"Authorization": f"Bearer {TOKENS['alice']}", "Content-Type": "application/json", "Accept": BOTH}
    chunks = (b" " * 65_536 for _ in range(4 * 16 + 1))
    connection.request("POST", "/mcp", body=chunks, headers=headers, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_a_large_body_within_4_mib_is_refused_as_an_outcome(request_of):
    status, _, body = request_of("POST", body=ask("x" * 3 * MIB))
    assert status == 200
    assert b'too_large' in body
    assert b'"isError":true' not in body


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        (b"", {400, 415}),
        (b"{", {400, 415}),
        (b"\xff\xfe", {400, 415}),
        (b"[]", {400, 415}),
        (b'{"jsonrpc":"2.0"}', {400, 415, 422}),
        (b"[" * 100_000, {400, 415}),
        (b'{"a":' * 100_000, {400, 415}),
    ],
    ids=["nothing", "cut off", "no UTF-8", "a batch", "no method", "deep list", "deep object"],
)
def test_a_body_that_is_no_request_is_refused_and_the_relay_serves_on(request_of, body, statuses):
    headers = {"Content-Type": "application/json", "Accept": BOTH}
    assert request_of("POST", body=body, **headers)[0] in statuses
    assert request_of("GET", "/health")[2] == b'{"status":"ok"}'
