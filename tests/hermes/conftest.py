"""Real Hermes gateways against the real relay: what every scene may use.

A scene gets a ``stage``: it starts the relay, bots with scripts for their models, and an asker. Scenes that
end no process share one; that keeps the whole suite short.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bot import PYTHON  # noqa: E402
from relay import binary  # noqa: E402
from stage import VERSION, Stage  # noqa: E402


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "xdist_group(name): scenes that one worker plays, because they share a stage")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    reason = "" if VERSION else f"no Hermes in {PYTHON} (HERMES_PYTHON names another)"
    reason = reason or ("" if binary() else "no relay binary (cargo build, or HERMES_BRIDGE_BIN)")
    for item in items:
        if reason and Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_report_header() -> str:
    return f"hermes {VERSION or 'missing'} of {PYTHON}, relay {binary()}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """A failed scene shows what its processes said."""
    outcome = yield
    report = outcome.get_result()
    stage = item.funcargs.get("stage") or item.funcargs.get("shared")
    if report.failed and isinstance(stage, Stage):
        report.sections.append(("processes", stage.logs()))


@pytest.fixture
def stage(tmp_path: Path) -> Any:
    made = Stage(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session", params=[pytest.param(tools, marks=pytest.mark.xdist_group(tools)) for tools in ("native", "mcp")])
def shared(request: Any, tmp_path_factory: Any) -> Any:
    """A relay and two bots whose scripts the scenes set; once with native tools, once over MCP. The second bot lets the
    asker decide what Hermes asks a human."""
    made = Stage(tmp_path_factory.mktemp(f"shared-{request.param}"))
    try:
        made.start_relay(ask_timeout_ms=5000)
        made.bot("a", tools=request.param)
        made.bot("b", tools=request.param, env={"HERMES_BRIDGE_PROMPTS": "ask"})
        made.join()
        made.warm_up()
        yield made
    finally:
        made.close()
