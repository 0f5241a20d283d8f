"""The platform adapter: Hermes on one side, the desk and the connection on the other.

Owns the glue and nothing that could be decided without Hermes: it turns questions into messages,
Hermes' callbacks into what the desk understands, and the connection's state into what Hermes shows.
Every use of a Hermes internal stands here or in ``hooks``, ``mcp_mode`` and ``late``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any, Callable, Optional
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from gateway.config import Platform
from gateway.platforms.base import BasePlatformAdapter, MessageEvent, MessageType, SendResult

from . import PLATFORM, frames, late, mcp_mode, settings, tools, turns, wake_text
from .calls import ToolCalls
from .connection import CONNECTED, LOST, REFUSED, Connection
from .courier import Courier
from .desk import Desk
from .outbox import Outbox
from .prompts import Prompts
from .version import VERSION

logger = logging.getLogger(__name__)

#: Hermes gives a platform 30 s to start; a relay that is away must not use them up.
FIRST_ATTEMPT_SECONDS = 12.0
REVIVE_AFTER_SECONDS = 1.0
#: Hermes 0.19 writes "connected" when connect() has returned, over what was said before.
TELL_AGAIN_AFTER = (0.1, 0.4, 2.0)


class HermesBridgeAdapter(BasePlatformAdapter):
    """One bot at one relay."""

    # The final text must come as one message, through send().
    SUPPORTS_MESSAGE_EDITING = False
    # A turn's answer is all that travels back: nothing may promise to report later.
    supports_async_delivery = False
    # After a restart the work is finished, not announced: nobody is there to read that.
    interactive_resume = False
    splits_long_messages = True
    DEGRADED_STATUS_MESSAGE = "the relay is away and is dialled on"

    def __init__(self, config: Any) -> None:
        super().__init__(config, Platform(PLATFORM))
        self._settings = settings.load(getattr(config, "extra", None))
        self._prompts = Prompts(self._settings.prompts)
        self._late = late.LateAnswers()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._loop_thread: Optional[int] = None
        self._tasks: set["asyncio.Task[Any]"] = set()
        self._connection: Optional[Connection] = None
        self._courier: Optional[Courier] = None
        self._calls: Optional[ToolCalls] = None
        self._reply_tool = ""
        self._mcp_server = ""
        self._closing = False
        # Stands for what this adapter remembers: another one in the same process has to be told anew.
        self._instance = uuid4().hex
        self.desk: Optional[Desk] = None
        tools.announce(self)

    # -- what Hermes asks of a platform ---------------------------------------------------------

    @property
    def authorization_is_upstream(self) -> bool:
        """The relay authenticated the asker and decided that it may ask this bot."""
        return True

    @property
    def profile(self) -> str:
        return str(getattr(self, "_owner_profile", None) or "")

    async def connect(self, *, is_reconnect: bool = False) -> bool:
        wrong = settings.problem(self._settings)
        if wrong:
            logger.error("hermes-bridge: %s", wrong)
            self._set_fatal_error("config", wrong, retryable=False)
            return False
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._name_tools()
        connection = Connection(self._settings.relay_url, self._settings.token, self._hello,
                                self._on_frame, self._on_state)
        # Several profiles of one gateway are several bots, each with answers of its own.
        name = f"outbox-{self.profile}.json" if self.profile else "outbox.json"
        outbox = Outbox(settings.hermes_home() / PLATFORM / name)
        self._courier = Courier(outbox, connection.call)
        self.desk = Desk(self, outbox, connection.post, self._courier.deliver)
        self._calls = ToolCalls(connection, self.desk, self._courier)
        self._connection = connection
        tools.announce(self)
        connection.start()
        self._courier.deliver_all()
        self._spawn(self.desk.run())
        first = await connection.first_state(FIRST_ATTEMPT_SECONDS)
        if first == REFUSED:
            await self.disconnect()
            return False
        if first == LOST:
            self._spawn(self._tell_again())
        # A relay that is away is dialled on: it is back within seconds of its return, while Hermes
        # itself would look again after minutes. The state that is shown says the truth meanwhile.
        return True

    async def disconnect(self) -> None:
        self._closing = True
        tools.withdraw(self)
        tasks, self._tasks = list(self._tasks), set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._courier is not None:
            await self._courier.stop()
        if self._connection is not None:
            await self._connection.stop()
        self._mark_disconnected()

    async def send(self, chat_id: str, content: str, reply_to: Optional[str] = None,
                   metadata: Any = None) -> SendResult:
        """Only the final text of a turn carries ``notify``; progress and notices go nowhere."""
        if self.desk is not None and isinstance(metadata, dict) and metadata.get("notify"):
            self.desk.final_text(chat_id, reply_to, content)
        return SendResult(success=True, message_id=uuid4().hex)

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        return {"name": f"hermes-bridge {chat_id}", "type": "dm", "chat_id": chat_id}

    async def on_processing_start(self, event: MessageEvent) -> None:
        if self.desk is not None:
            self.desk.turn_began(event.source.chat_id, event.message_id or None)

    async def on_processing_complete(self, event: MessageEvent, outcome: Any) -> None:
        if self.desk is not None:
            said = str(getattr(outcome, "value", outcome)).lower()
            self.desk.turn_over(event.source.chat_id, event.message_id or None, said)

    # -- files and pictures: the answer says in words that there were some ----------------------

    @staticmethod
    def extract_images(content: str) -> tuple[list[Any], str]:
        """Links to pictures stay where they stand in the text."""
        return [], content

    @staticmethod
    def extract_local_files(content: str) -> tuple[list[Any], str]:
        """Paths of files stay where they stand in the text."""
        return [], content

    def _attach(self, chat_id: str, text: str, caption: Optional[str] = None) -> SendResult:
        if self.desk is not None:
            self.desk.attachment(chat_id, f"{caption}\n{text}" if caption else text)
        return SendResult(success=True, message_id=uuid4().hex)

    def _attach_file(self, chat_id: str, path: str, caption: Optional[str] = None) -> SendResult:
        return self._attach(chat_id, f"[file on the answering agent's machine: {path}]", caption)

    async def send_multiple_images(self, chat_id: str, images: Any, metadata: Any = None,
                                   human_delay: float = 0.0) -> SendResult:
        result = SendResult(success=True)
        for url, caption in images:
            if url.startswith("file://"):
                result = self._attach_file(chat_id, unquote(urlsplit(url).path), caption)
            else:
                result = self._attach(chat_id, url, caption)
        return result

    async def send_image(self, chat_id: str, image_url: str, caption: Optional[str] = None,
                         **_: Any) -> SendResult:
        return self._attach(chat_id, image_url, caption)

    async def send_animation(self, chat_id: str, animation_url: str, caption: Optional[str] = None,
                             **_: Any) -> SendResult:
        return self._attach(chat_id, animation_url, caption)

    async def send_image_file(self, chat_id: str, image_path: str, caption: Optional[str] = None,
                              **_: Any) -> SendResult:
        return self._attach_file(chat_id, image_path, caption)

    async def send_document(self, chat_id: str, file_path: str, caption: Optional[str] = None,
                            **_: Any) -> SendResult:
        return self._attach_file(chat_id, file_path, caption)

    async def send_voice(self, chat_id: str, audio_path: str, caption: Optional[str] = None,
                         **_: Any) -> SendResult:
        return self._attach_file(chat_id, audio_path, caption)

    async def send_video(self, chat_id: str, video_path: str, caption: Optional[str] = None,
                         **_: Any) -> SendResult:
        return self._attach_file(chat_id, video_path, caption)

    # -- prompts for a human ---------------------------------------------------------------------

    @classmethod
    def supports_exec_approval_buttons(cls) -> bool:
        """Newer releases ask by :meth:`send_exec_approval` only if this says so."""
        return True

    async def send_clarify(self, chat_id: str, question: str, choices: Any, clarify_id: str,
                           session_key: str, metadata: Any = None, **_: Any) -> SendResult:
        from tools.clarify_gateway import resolve_gateway_clarify

        decision = self._prompts.clarify(question, choices, answerable=self._answerable(chat_id))
        self._ask_back(chat_id, decision.for_asker)
        resolve_gateway_clarify(clarify_id, decision.for_model)
        return SendResult(success=True, message_id=clarify_id)

    async def send_exec_approval(self, chat_id: str, command: str, session_key: str,
                                 description: str = "", metadata: Any = None, **_: Any) -> SendResult:
        from tools.approval import resolve_gateway_approval

        decision = self._prompts.approval(chat_id, command, description or "",
                                          answerable=self._answerable(chat_id))
        self._ask_back(chat_id, decision.for_asker)
        try:
            if decision.allow:
                resolve_gateway_approval(session_key, "once")
            else:
                resolve_gateway_approval(session_key, "deny", reason=decision.for_model)
        except TypeError:
            resolve_gateway_approval(session_key, "deny")
        return SendResult(success=True, message_id=uuid4().hex)

    def _answerable(self, chat_id: str) -> bool:
        turn = self.desk.turn(chat_id) if self.desk is not None else None
        return turn is not None and not turn.replied

    def _ask_back(self, chat_id: str, question: Optional[str]) -> None:
        turn = self.desk.turn(chat_id) if self.desk is not None else None
        if question and turn is not None and self.desk is not None:
            self.desk.reply(turn.request_id, {"answer": question})

    # -- what the desk asks of Hermes ------------------------------------------------------------

    def ready(self) -> bool:
        runner = self.gateway_runner
        starting = bool(getattr(runner, "_startup_restore_in_progress", False))
        drained = bool(getattr(runner, "_external_drain_active", False))
        return self._message_handler is not None and not (starting or drained or self.draining())

    def draining(self) -> bool:
        runner = self.gateway_runner
        shutdown = getattr(runner, "_shutdown_event", None)
        going_down = bool(shutdown is not None and shutdown.is_set())
        return bool(getattr(runner, "_draining", False)) or going_down or self._closing

    def session_busy(self, chat_id: str) -> bool:
        key = self._session_key(self._source(chat_id))
        running = getattr(self.gateway_runner, "_running_agents", None) or {}
        if key in self._active_sessions:
            self._heal_stale_session_lock(key)
        return key in self._active_sessions or key in running

    def parked(self, request_id: str) -> bool:
        queue = getattr(self.gateway_runner, "_startup_restore_queue", None) or []
        return any(getattr(event, "message_id", None) == request_id for event in queue)

    async def start_turn(self, wake: frames.Wake, chat_id: str) -> None:
        self._prompts.next_message(chat_id, wake.message)
        source = self._source(chat_id, sender=wake.sender, message_id=wake.request_id)
        event = MessageEvent(
            text=wake_text.for_wake(wake, self._reply_tool),
            message_type=MessageType.TEXT,
            source=source,
            message_id=wake.request_id,
            raw_message={"request_id": wake.request_id, "conversation_id": wake.conversation_id},
        )
        if hasattr(event, "allow_gateway_control"):
            event.allow_gateway_control = False
        logger.info("hermes-bridge: request %s from %s starts", wake.request_id, wake.sender)
        await self.handle_message(event)
        if self._session_key(source) not in self._active_sessions:
            raise RuntimeError("Hermes did not take the message")

    def interrupt(self, chat_id: str) -> None:
        key = self._session_key(self._source(chat_id))
        agent = (getattr(self.gateway_runner, "_running_agents", None) or {}).get(key)
        stop = getattr(agent, "interrupt", None)
        if callable(stop):
            stop("The asking agent cancelled its question.")

    # -- the connection --------------------------------------------------------------------------

    def call_tool(self, tool: str, arguments: dict[str, Any], during: str,
                  interrupted: Callable[[], bool]) -> Any:
        """A tool call of the model, on its worker thread."""
        if self._calls is None or self._loop is None:
            return tools.unreachable("The bridge is not connected to a relay.")
        if threading.get_ident() == self._loop_thread:
            return tools.unreachable("The tools of the bridge cannot run on the gateway's own thread.")
        origin = late.origin_of_this_turn()
        result = self._calls.from_thread(self._loop, tool, arguments, during, interrupted)
        self._late.remember(result, origin)
        return result

    def session_known(self, turn: turns.Turn) -> None:
        """The turn has its session id, on a thread of Hermes: a heartbeat carries it at once, as a
        short turn sends no later one."""
        if self._loop is not None and self.desk is not None:
            self._loop.call_soon_threadsafe(self.desk.beat_for, turn)

    def _on_frame(self, frame: frames.Inbound) -> None:
        if self.desk is None:
            return
        if isinstance(frame, frames.Wake):
            self.desk.question(frame)
        elif isinstance(frame, frames.Cancelled):
            self.desk.cancelled(frame.request_id)
        elif isinstance(frame, frames.LateAnswer):
            self._spawn(self._late.hand_over(self, frame))

    @property
    def send_path_degraded(self) -> bool:
        """Newer releases ask this before they write "connected"."""
        return self._connection is not None and not self._connection.connected

    async def _tell_again(self) -> None:
        for pause in TELL_AGAIN_AFTER:
            await asyncio.sleep(pause)
            if self._connection is not None and self._connection.state == LOST:
                self._on_state(LOST, self._connection.reason or self.DEGRADED_STATUS_MESSAGE)

    def _on_state(self, state: str, reason: str) -> None:
        if state == CONNECTED:
            self._mark_connected()
            if self._mcp_server:
                self._spawn(self._revive_mcp())
        elif state == REFUSED:
            said = f"{reason}. Check HERMES_BRIDGE_TOKEN, then restart this gateway."
            logger.error("hermes-bridge: %s", said)
            self._set_fatal_error("auth", said, retryable=False)
        else:
            self._running = False
            self._write_runtime_status_safe("retrying", platform_state="retrying", error_code="relay",
                                            error_message=reason)

    async def _revive_mcp(self) -> None:
        await asyncio.sleep(REVIVE_AFTER_SECONDS)
        try:
            done = await asyncio.to_thread(mcp_mode.revive, self._mcp_server)
            logger.info("hermes-bridge: MCP server %s: %s", self._mcp_server, done)
        except Exception:
            logger.warning("hermes-bridge: MCP server %s could not be revived", self._mcp_server, exc_info=True)

    # -- inside ----------------------------------------------------------------------------------

    def _name_tools(self) -> None:
        servers, _ = mcp_mode.configuration()
        native = mcp_mode.use_native_tools(self._settings, servers)
        self._mcp_server = "" if native else mcp_mode.relay_server(servers, self._settings)
        if native:
            self._reply_tool = "reply"
        elif self._mcp_server:
            self._reply_tool = mcp_mode.tool_name(self._mcp_server, "reply")

    def _hello(self) -> str:
        try:
            from hermes_cli import __version__ as hermes_version
        except Exception:
            hermes_version = ""
        return frames.hello(VERSION, self._instance, str(hermes_version))

    def _source(self, chat_id: str, sender: str = "", message_id: str = "") -> Any:
        name = wake_text.label(sender) or None
        return self.build_source(chat_id=chat_id, chat_name=name, chat_type="dm", user_id=name,
                                 user_name=name, message_id=message_id or None)

    def _session_key(self, source: Any) -> str:
        derive = getattr(self, "_source_session_key", None)
        if callable(derive):
            return derive(source)
        from gateway.session import build_session_key

        extra = self.config.extra
        return build_session_key(
            source,
            group_sessions_per_user=extra.get("group_sessions_per_user", True),
            thread_sessions_per_user=extra.get("thread_sessions_per_user", False),
        )

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
