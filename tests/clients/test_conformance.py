"""The protocol's own conformance suite, server side. What is expected to fail stands in baseline-*.yml, with the reason;
the suite fails on anything else that fails, and on an entry that no longer does."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from client import HERE, MODULES
from rig import TOKENS

NODE = Path(os.environ.get("HERMES_BRIDGE_TEST_NEW_NODE", "node of 22 or newer"))
SUITE = MODULES / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"


@pytest.fixture
def proxied(start):
    """The address of a relay that takes requests without a token."""
    for needed in (NODE, SUITE):
        assert needed.exists(), f"{needed} is not installed: tests/clients/run says why"
    relay = start()
    command = [NODE, HERE / "header_proxy.mjs", str(relay.port), TOKENS["alice"]]
    proxy = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield f"http://localhost:{int(proxy.stdout.readline())}/mcp"
    proxy.kill()
    proxy.wait()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_conformance_suite_passes_but_for_missing_fixtures(proxied, tmp_path, revision):
    baseline = HERE / f"baseline-{revision}.yml"
    command = [NODE, SUITE, "server", "--url", proxied, "--requirements", revision, "-o", tmp_path]
    command += ["--expected-failures", baseline]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    report = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert done.returncode == 0, report[-6_000:]
