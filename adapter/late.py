"""Answers that come after the call that asked for them has returned.

Owns the memory of which session asked, and handing such an answer to it as a message. Lost with the
process: the relay keeps the answer, and ``get_answer`` fetches it at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from . import tools, wake_text
from .frames import LateAnswer

logger = logging.getLogger(__name__)

#: Questions remembered with their session. Full means: the oldest is forgotten, and its answer waits
#: for get_answer instead of being handed over.
MAX_REMEMBERED = 256
_WAIT_FOR_FREE_SECONDS = 3600.0
_LOOK_EVERY = 1.0


@dataclass(frozen=True)
class Origin:
    """The session that asked."""

    platform: str
    chat_id: str
    user_id: str
    user_name: str
    thread_id: str


def origin_of_this_turn() -> Origin:
    """The session of the calling thread; empty where Hermes says nothing."""
    return Origin(*(tools.session_value(name) for name in
                    ("PLATFORM", "CHAT_ID", "USER_ID", "USER_NAME", "THREAD_ID")))


class LateAnswers:
    def __init__(self) -> None:
        self._asked: "OrderedDict[str, Origin]" = OrderedDict()

    def remember(self, result: Any, origin: Origin) -> None:
        """Notes the session of a question whose call returned without its answer."""
        if not isinstance(result, dict) or result.get("ok") is not False or not origin.chat_id:
            return
        request_id = result.get("request_id")
        if isinstance(request_id, str) and request_id:
            self._asked[request_id] = origin
            while len(self._asked) > MAX_REMEMBERED:
                self._asked.popitem(last=False)

    def take(self, request_id: str) -> Any:
        return self._asked.pop(request_id, None)

    async def hand_over(self, adapter: Any, answer: LateAnswer) -> None:
        """Gives the answer to the session that asked, once nothing runs in it."""
        origin = self.take(answer.request_id)
        platform = self._platform_of(adapter, origin)
        if platform is None:
            logger.info("hermes-bridge: request %s: a late answer waits at the relay", answer.request_id)
            return
        from gateway.platforms.base import MessageEvent, MessageType

        source = platform.build_source(
            chat_id=origin.chat_id, user_id=origin.user_id or None, user_name=origin.user_name or None,
            thread_id=origin.thread_id or None,
        )
        event = MessageEvent(text=wake_text.for_late_answer(answer), message_type=MessageType.TEXT,
                             source=source, internal=True)
        if hasattr(event, "allow_gateway_control"):
            event.allow_gateway_control = False
        waited = 0.0
        while platform is adapter and adapter.session_busy(origin.chat_id) and waited < _WAIT_FOR_FREE_SECONDS:
            await asyncio.sleep(_LOOK_EVERY)
            waited += _LOOK_EVERY
        logger.info("hermes-bridge: request %s: a late answer is handed to its session", answer.request_id)
        await platform.handle_message(event)

    @staticmethod
    def _platform_of(adapter: Any, origin: Any) -> Any:
        """The adapter of the asking session's platform, if it can take a message from us."""
        if origin is None:
            return None
        if origin.platform == adapter.platform.value:
            return adapter
        for platform, other in (getattr(adapter.gateway_runner, "adapters", None) or {}).items():
            if getattr(platform, "value", platform) == origin.platform:
                return other if getattr(other, "supports_async_delivery", False) else None
        return None
