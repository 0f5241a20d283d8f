"""A long outage, through the real SDK with its own two tries, and the return of many bots at once."""

import re
import subprocess

from client import HERE, python
from rig import BINARY


# The second try comes 30 s after the kill; the relay is up two seconds before it, so that a slow start fails nothing.
def test_callers_get_their_answers_after_28_seconds_without_a_relay_and_500_bots_return():
    measure = [python("mcp1"), HERE / "outage.py", BINARY, "--outages", "28", "--bots", "500", "--bots-outage", "5"]
    ran = subprocess.run(measure, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "(MCP)" in ran.stdout and "(WebSocket)" in ran.stdout, ran.stdout
    p99, refused = re.search(r"500 bots .* p99 ([\d.]+) s, .* refused (\d+)", ran.stdout).groups()
    assert float(p99) < 30 and refused == "0", ran.stdout
