"""Behind a real nginx and a real Caddy of Debian, with the very recipes of the README: TLS, the bots' WebSocket, and an ask
that is silent for longer than the proxy allows a response to be, which the relay's keep-alive comments carry through."""

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest
from websockets.sync.client import connect

from client import CACHE, PATIENCE
from rig import TOKENS, Relay, until

HOST = "bridge.example.org"
README = (Path(__file__).parents[2] / "README.md").read_text()
# What the proxy bears, and how long the asked bot is silent.
READ_TIMEOUT, SILENCE = 3, 8


def recipe(language):
    [block] = re.findall(rf"```{language}\n(.*?)```", README, re.S)
    return block


def program(package, path):
    """The program of a Debian package: the machine's, or fetched once and unpacked, with no right needed and no service started."""
    if found := shutil.which(package):
        return found
    home = CACHE / package
    if not (home / path).exists():
        home.mkdir(parents=True, exist_ok=True)
        fetched = subprocess.run(["apt-get", "download", package], cwd=home, capture_output=True, text=True, check=False)
        packages = list(home.glob("*.deb"))
        if not packages:
            pytest.skip(f"{package} is not here and apt cannot fetch it: {fetched.stderr.strip()[-200:]}")
        subprocess.run(["dpkg", "-x", packages[0], home], check=True)
    return str(home / path)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Nginx:
    def __init__(self, home, port, relay):
        conf = recipe("nginx").replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl").replace("127.0.0.1:8787", f"127.0.0.1:{relay}")
        conf = re.sub(r"ssl_certificate .*;", f"ssl_certificate {home}/cert.pem;", conf)
        conf = re.sub(r"ssl_certificate_key .*;", f"ssl_certificate_key {home}/key.pem;", conf)
        temporary = "\n".join(f"{kind}_temp_path {home}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (home / "nginx.conf").write_text(
            f"daemon off; pid {home}/pid; error_log {home}/error; events {{}}\n"
            f"http {{ access_log off; proxy_read_timeout {READ_TIMEOUT}s; {temporary}\n{conf} }}\n"
        )
        self.command = [program("nginx", "usr/sbin/nginx"), "-e", f"{home}/error", "-p", str(home), "-c", str(home / "nginx.conf")]


class Caddy:
    def __init__(self, home, port, relay):
        inner = f"reverse_proxy 127.0.0.1:{relay} {{\n transport http {{\n read_timeout {READ_TIMEOUT}s\n }}\n }}\n tls {home}/cert.pem {home}/key.pem\n bind 127.0.0.1"
        conf = recipe("caddyfile").replace("reverse_proxy 127.0.0.1:8787", inner).replace(HOST, f"https://{HOST}:{port}")
        (home / "Caddyfile").write_text("{\n admin off\n auto_https disable_redirects\n}\n" + conf)
        self.command = [program("caddy", "usr/bin/caddy"), "run", "--adapter", "caddyfile", "--config", str(home / "Caddyfile")]


class Behind:
    """A relay behind a proxy."""

    def __init__(self, kind, home, keep_alive_ms):
        relay = home / "relay"
        relay.mkdir()
        self.relay = Relay(relay, public_url=f"https://{HOST}", keep_alive_ms=keep_alive_ms, ping_interval_ms=1_000)
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}"]
        make += ["-addext", f"subjectAltName=DNS:{HOST}", "-keyout", home / "key.pem", "-out", home / "cert.pem"]
        subprocess.run(make, check=True, capture_output=True)
        self.trust = ssl.create_default_context(cafile=home / "cert.pem")
        self.port = free_port()
        command = kind(home, self.port, self.relay.port).command
        self.log = (home / "proxy.log").open("wb")
        environment = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home), "XDG_CONFIG_HOME": str(home)}
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT, env=environment)
        until(self.listens)

    def listens(self):
        assert self.process.poll() is None, Path(self.log.name).read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def tcp(self):
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPSConnection(HOST, self.port, timeout=PATIENCE)
        connection.sock = self.trust.wrap_socket(self.tcp(), server_hostname=HOST)
        connection.request(method, path, body, {"Host": HOST, **(headers or {})})
        return connection.getresponse()

    def bot(self, agent):
        headers = {"Authorization": f"Bearer {TOKENS[agent]}"}
        return connect(f"wss://{HOST}/bridge/connect", sock=self.tcp(), ssl=self.trust, server_hostname=HOST, additional_headers=headers, open_timeout=PATIENCE)

    def ask(self, message):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask_agent", "arguments": {"to": "bob", "message": message}}}
        headers = {"Authorization": f"Bearer {TOKENS['alice']}", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        return self.request("POST", "/mcp", json.dumps(body), headers)

    def close(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.log.close()
        self.relay.stop()


@pytest.fixture
def behind(tmp_path):
    made = []

    def behind(kind, keep_alive_ms):
        made.append(Behind(kind, tmp_path, keep_alive_ms))
        return made[-1]

    yield behind
    for one in made:
        one.close()


def silent_ask(proxied):
    """An ask through the proxy whose answer takes longer than the proxy bears; what came of it."""
    with proxied.bot("bob") as bob:
        response = proxied.ask("are you there?")
        wake = json.loads(bob.recv(PATIENCE))
        time.sleep(SILENCE)
        arguments = {"request_id": wake["request_id"], "answer": "still here"}
        bob.send(json.dumps({"type": "call", "id": "1", "tool": "reply", "arguments": arguments}))
        try:
            return response.read().decode()
        except (OSError, http.client.IncompleteRead) as cut:
            return f"cut: {cut}"


@pytest.mark.parametrize("kind", [Nginx, Caddy])
def test_a_long_silence_passes_the_proxy_of_the_readme(behind, kind):
    proxied = behind(kind, keep_alive_ms=1_000)
    health = proxied.request("GET", "/health")
    assert (health.status, health.read()) == (200, b'{"status":"ok"}')
    assert "still here" in silent_ask(proxied)


def test_without_keep_alive_comments_the_proxy_would_cut_the_ask(behind):
    """What the test above rests on."""
    assert "still here" not in silent_ask(behind(Nginx, keep_alive_ms=60_000))
