"""What the relay exports, read by the official protobuf definitions of OpenTelemetry."""

import base64
import json
import ssl
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import trustme
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from rig import BINARY, until

# An authority of the tests' own, made anew each time.
AUTHORITY = trustme.CA()


@contextmanager
def collecting(secure=False):
    """A server that takes everything; `bodies` is what it was sent."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.say(b"{}")

        def do_GET(self):
            self.say(b'{"status":"OK","version":"4.16.0","data":[]}')

        def say(self, text):
            self.send_response(200)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if secure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        AUTHORITY.issue_cert("localhost").configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.bodies = bodies
    server.url = f"https://localhost:{server.server_port}" if secure else f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def collector():
    with collecting() as server:
        yield server


@pytest.fixture
def secure_collector():
    with collecting(secure=True) as server:
        yield server


def parsed(body):
    """OTLP's JSON is protobuf's but for ids, which are hexadecimal there and base64 here. Unknown fields are refused."""
    request = json.loads(body)
    for resource in request["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for owner in (span, *span.get("links", [])):
                    for key in ("traceId", "spanId"):
                        owner[key] = base64.b64encode(bytes.fromhex(owner[key])).decode()
    return json_format.Parse(json.dumps(request), ExportTraceServiceRequest())


SECTIONS = {
    "langfuse": '[langfuse]\nbase_url = "{url}"\npublic_key = "pk-lf-1"\nsecret_key = "sk-lf-1"\nrelease = "r1"',
    "otlp": '[otlp]\nendpoint = "{url}"\ncapture = "full"',
}


@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("sink", SECTIONS)
def test_a_request_is_what_opentelemetry_defines(start, collector, sink, answered):
    relay = start(sections=SECTIONS[sink].format(url=collector.url))
    bob, alice = relay.bot("bob"), relay.bot("alice")
    text = 'é "quoted" \u0000 \U0001f600'
    bob.send(
        type="call",
        id="1",
        tool="ask_agent",
        # Whoever asks itself is refused.
        arguments={"to": "alice" if answered else "bob", "message": text},
        _meta={"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
    )
    if answered:
        wake = alice.wake()
        alice.send(type="heartbeat", request_id=wake["request_id"], session_id="s-1")
        alice.send(type="call", id="1", tool="reply", arguments={"request_id": wake["request_id"], "answer": text[::-1]})
    body = until(lambda: collector.bodies and collector.bodies[0])
    request = parsed(body)
    (resource,) = request.resource_spans
    (scope,) = resource.scope_spans
    (span,) = scope.spans
    assert (len(span.trace_id), len(span.span_id), span.parent_span_id) == (16, 8, b"")
    assert (span.kind, span.status.code) == (Span.SPAN_KIND_CLIENT, Status.STATUS_CODE_OK if answered else Status.STATUS_CODE_ERROR)
    assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
    assert span.links[0].trace_id.hex() == "4bf92f3577b34da6a3ce929d0e0e4736"
    names = {a.key for a in resource.resource.attributes}
    assert {"service.name", "service.version"} <= names
    attributes = {a.key: a.value for a in span.attributes}
    assert len(attributes) == len(span.attributes), "an attribute twice"
    langfuse = sink == "langfuse"
    question = attributes["langfuse.observation.input" if langfuse else "gen_ai.input.messages"].string_value
    assert (json.loads(question)["message"] if langfuse else json.loads(question)[0]["parts"][0]["content"]) == text
    if answered:
        answer = json.loads(attributes["langfuse.observation.output" if langfuse else "gen_ai.output.messages"].string_value)
        assert (answer["answer"] if langfuse else answer[0]["parts"][0]["content"]) == text[::-1]
        session = attributes["langfuse.observation.metadata.hermes_session_id" if langfuse else "hermes_bridge.hermes_session_id"]
        assert session.string_value == "s-1"
        heartbeats = attributes["langfuse.observation.metadata.heartbeats" if langfuse else "hermes_bridge.heartbeats"]
        assert heartbeats.int_value == 1
    else:
        assert attributes["error.type"].string_value == "self_ask"


def ask_myself(relay):
    """An exchange that ends at once: it is refused, and exported."""
    relay.bot("bob").send(type="call", id="1", tool="ask_agent", arguments={"to": "bob", "message": "me?"})


@pytest.mark.parametrize("by", ["ca_file", "SSL_CERT_FILE"])
@pytest.mark.parametrize("sink", SECTIONS)
def test_over_tls_a_private_authority_is_trusted_once_it_is_named(start, secure_collector, tmp_path, sink, by):
    authority = tmp_path / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(authority)
    section, env = SECTIONS[sink].format(url=secure_collector.url), {}
    if by == "ca_file":
        section += f'\nca_file = "{authority}"'
    else:
        env["SSL_CERT_FILE"] = str(authority)
    ask_myself(start(sections=section, env=env))
    assert parsed(until(lambda: secure_collector.bodies and secure_collector.bodies[0])).resource_spans


def test_over_tls_an_authority_that_is_not_known_is_told_with_the_remedy(start, secure_collector):
    relay = start(sections=SECTIONS["langfuse"].format(url=secure_collector.url))
    relay.may_complain = True
    ask_myself(relay)
    until(lambda: "with ca_file" in relay.log.read_text())
    assert "invalid peer certificate" in relay.log.read_text() and not secure_collector.bodies
    check = subprocess.run([BINARY, "check", "--config", relay.config], capture_output=True, text=True, timeout=60)
    assert check.returncode == 1 and "cannot be reached" in check.stdout and "with ca_file" in check.stdout, check.stdout
