"""What the relay exports, read by the official protobuf definitions of OpenTelemetry."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from rig import until


@pytest.fixture
def collector():
    """A server that takes everything; `bodies` is what it was sent."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.bodies = bodies
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()


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


@pytest.mark.parametrize("sink", SECTIONS)
def test_a_request_is_what_opentelemetry_defines(start, collector, sink):
    relay = start(sections=SECTIONS[sink].format(url=collector.url))
    bot = relay.bot("bob")
    bot.send(
        type="call",
        id="1",
        tool="ask_agent",
        arguments={"to": "bob", "message": 'é "quoted" \u0000 \U0001f600'},
        _meta={"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
    )
    body = until(lambda: collector.bodies and collector.bodies[0])
    request = parsed(body)
    (resource,) = request.resource_spans
    (scope,) = resource.scope_spans
    (span,) = scope.spans
    assert (len(span.trace_id), len(span.span_id), span.parent_span_id) == (16, 8, b"")
    assert (span.kind, span.status.code) == (Span.SPAN_KIND_CLIENT, Status.STATUS_CODE_ERROR)
    assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
    assert span.links[0].trace_id.hex() == "4bf92f3577b34da6a3ce929d0e0e4736"
    names = {a.key for a in resource.resource.attributes}
    assert {"service.name", "service.version"} <= names
    attributes = {a.key: a.value for a in span.attributes}
    assert attributes["error.type"].string_value == "self_ask"
    assert len(attributes) == len(span.attributes), "an attribute twice"
    key = "langfuse.observation.input" if sink == "langfuse" else "gen_ai.input.messages"
    assert 'é \\"quoted\\" \\u0000 \U0001f600' in attributes[key].string_value
