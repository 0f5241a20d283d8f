"""A long outage, through the real SDK with its own two tries, and the return of many bots at once."""

import re
import subprocess

from client import HERE, python
from rig import BINARY


def test_callers_get_their_answers_after_25_seconds_without_a_relay_and_a_hundred_bots_return():
    measure = [python("mcp1"), HERE / "outage.py", BINARY, "--outages", "25", "--bots", "100", "--bots-outage", "5"]
    ran = subprocess.run(measure, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "(MCP)" in ran.stdout and "(WebSocket)" in ran.stdout, ran.stdout
    p99, refused = re.search(r"100 bots .* p99 ([\d.]+) s, .* refused (\d+)", ran.stdout).groups()
    assert float(p99) < 30 and refused == "0", ran.stdout
