//! The bots' door: WebSocket at /bridge/connect. Owns the upgrade, pings, the order in which a bot is told things, and
//! the calls that run on one socket. The socket's read buffer is small: ten thousand idle bots fit in 100 MB.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use super::body::MAX_HALF_SENT;
use super::gate::Gate;
use super::metered::Metered;
use super::server::Place;
use super::untaken::Untaken;
use super::{Body, refused, tools};
use crate::engine::{Connection, Engine, Pass, ToBot as Told};
use crate::wire::frames::{FromBot, ToBot, parse};
use crate::wire::results::{self, Report};
use crate::wire::tools::REPLY;

/// As large as the body of a POST to /mcp.
const MAX_MESSAGE: usize = 4 << 20;
const HALF_SENT: &str = "one agent has at most 33554432 bytes half sent";
const _: () = assert!(MAX_HALF_SENT == 33_554_432);
/// tungstenite allots 128 KiB a connection unless told otherwise. Bots are idle most of the time, and a long frame is read
/// in several goes.
const READ_BUFFER: usize = 1_024;
/// A peer that takes nothing for so long is gone.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const SEND_TIMEOUT_AT_STOP: Duration = Duration::from_secs(1);
/// Pings that a peer may leave without an answer. The next one is not sent: it closes the connection, within a minute of the
/// peer's last sign of life with the interval that is the default.
const SILENT_PINGS: u32 = 2;
/// How long a bot may take to say hello before it is served as one that never does.
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);
/// Tool calls under way on one socket; one more is answered with a refusal.
const MAX_CALLS: usize = 256;

type Socket = WebSocketStream<Metered<TokioIo<Upgraded>>>;

/// Answers the upgrade and serves the socket on a task of its own, which keeps the connection's `place` until it ends. The
/// bot is connected before it reads the answer: whoever it tells so may ask it at once.
pub(super) async fn upgrade(
    mut request: Request<Incoming>,
    engine: Arc<Engine>,
    gate: Arc<Gate>,
    (pass, address): (Pass, IpAddr),
    tasks: &tokio_util::task::TaskTracker,
    place: Arc<Place>,
) -> Response<Body> {
    let Some(key) = handshake(request.headers()) else {
        let message = "this address speaks WebSocket: Connection: Upgrade, Upgrade: websocket, Sec-WebSocket-Version: 13";
        return super::error(StatusCode::BAD_REQUEST, message);
    };
    let (doors, caller) = (&engine.config().doors, &pass.name);
    let mut share = gate.sockets.share(caller.clone());
    let room = gate.agent(engine.now(), caller, doors);
    if let Err(over) = room.and_then(|()| share.hold(1, doors.max_connections_per_agent, "max_connections_per_agent")) {
        return over.refuse(&engine, caller.as_str(), address);
    }
    let connection = match engine.connect(caller).await {
        Ok(Some(connection)) => connection,
        // Removed since its token was looked at.
        Ok(None) => return super::auth::unauthorized(),
        Err(e) => {
            tracing::error!(agent = %caller, error = %e, "a connection could not be recorded");
            return super::error(StatusCode::SERVICE_UNAVAILABLE, "the relay cannot record anything at the moment");
        }
    };
    let upgraded = hyper::upgrade::on(&mut request);
    tasks.spawn(async move {
        match upgraded.await {
            Ok(io) => serve(io, engine, gate, connection, (pass, address)).await,
            Err(e) => tracing::debug!(error = %e, "an upgrade did not complete"),
        }
        drop((place, share));
    });
    let mut response = Response::new(super::full(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, key);
    response
}

fn handshake(headers: &HeaderMap) -> Option<HeaderValue> {
    let has = |name: HeaderName, word: &str| {
        headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(',')).any(|v| v.trim().eq_ignore_ascii_case(word))
    };
    if !has(CONNECTION, "upgrade") || !has(UPGRADE, "websocket") || !has(SEC_WEBSOCKET_VERSION, "13") {
        return None;
    }
    HeaderValue::from_str(&derive_accept_key(headers.get(SEC_WEBSOCKET_KEY)?.as_bytes())).ok()
}

async fn serve(io: Upgraded, engine: Arc<Engine>, gate: Arc<Gate>, connection: Connection, (pass, address): (Pass, IpAddr)) {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * MAX_MESSAGE)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    let io = Metered::new(TokioIo::new(io), gate.half_sent.share(connection.name.clone()));
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let revoked = engine.revoked(pass);
    Session::new(socket, connection, engine, gate, address).run(revoked).await;
}

async fn close(mut socket: Socket, code: CloseCode, reason: &'static str) {
    let frame = CloseFrame { code, reason: reason.into() };
    // A peer that does not read cannot be told.
    let _ = tokio::time::timeout(Duration::from_secs(1), socket.close(Some(frame))).await;
}

struct Session {
    socket: Socket,
    connection: Connection,
    engine: Arc<Engine>,
    gate: Arc<Gate>,
    address: IpAddr,
    /// Nothing is read before: the bot sent more than it may.
    slowed: Option<Instant>,
    calls: JoinSet<Called>,
    introduced: bool,
    restarting: bool,
    silent_pings: u32,
}

/// A call's id and result, and the room that the result takes until it is sent.
type Called = (Value, Box<RawValue>, Arc<Untaken>);

/// Why a session ends, as the close frame says it. `None`: there is nobody to tell.
type End = Option<(CloseCode, &'static str)>;

impl Session {
    fn new(socket: Socket, connection: Connection, engine: Arc<Engine>, gate: Arc<Gate>, address: IpAddr) -> Self {
        let (slowed, calls) = (None, JoinSet::new());
        Self { socket, connection, engine, gate, address, slowed, calls, introduced: false, restarting: false, silent_pings: 0 }
    }

    fn note(&self, rule: &'static str, what: &str) {
        refused(&self.engine, rule, self.connection.name.as_str(), self.address, what);
    }

    fn note_foreign(&self, frame: &str, own: bool) {
        if !own {
            self.note(tools::NO_REQUEST, &format!("{frame}: {} of its own", tools::NO_REQUEST));
        }
    }

    /// What was sent is put on record, and closes the socket.
    fn reject(&self, code: CloseCode, why: &'static str) -> Result<(), End> {
        self.note(why, why);
        Err(Some((code, why)))
    }

    async fn run(mut self, revoked: impl Future<Output = ()>) {
        let end = self.turn(revoked).await;
        if let Some((code, reason)) = end {
            close(self.socket, code, reason).await;
        }
    }

    async fn turn(&mut self, revoked: impl Future<Output = ()>) -> End {
        let every = self.engine.config().ping_interval;
        let mut pings = tokio::time::interval_at(Instant::now() + every, every);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let hello_by = tokio::time::sleep(HELLO_TIMEOUT);
        tokio::pin!(hello_by, revoked);
        let hang_up = self.connection.hang_up.clone();
        loop {
            // In this order: what the bot is told comes before the results of its calls, because it was decided before
            // them. A wake must not follow the result of the very reply that made it needless.
            let going = tokio::select! {
                biased;
                () = hang_up.cancelled() => Err(Some((CloseCode::Policy, "closed by the relay"))),
                () = &mut revoked => Err(Some((CloseCode::Policy, "this token is not valid any more"))),
                Some(told) = self.connection.queue.recv() => self.tell(told).await,
                Some(done) = self.calls.join_next() => self.answer(done).await,
                () = &mut hello_by, if !self.introduced => self.introduce(None).await,
                _ = pings.tick() => self.ping().await,
                () = until(self.slowed), if self.slowed.is_some() => {
                    self.slowed = None;
                    Ok(())
                }
                frame = self.socket.next(), if self.slowed.is_none() => self.heard(frame).await,
            };
            if let Err(end) = going {
                return end;
            }
        }
    }

    async fn heard(&mut self, frame: Option<Result<Message, WsError>>) -> Result<(), End> {
        self.silent_pings = 0;
        let over = self.gate.agent(self.engine.now(), &self.connection.name, &self.engine.config().doors).err();
        self.slowed = over.map(|over| Instant::now() + Duration::from_millis(over.retry_in_ms));
        if let Some(over) = over {
            over.note(&self.engine, self.connection.name.as_str(), self.address);
        }
        match &frame {
            Some(Ok(Message::Ping(payload))) => self.socket.get_mut().control(payload.len()),
            Some(Ok(Message::Pong(payload))) => {
                self.socket.get_mut().control(payload.len());
                self.connection.took(payload);
            }
            Some(Ok(_)) => self.socket.get_mut().whole(),
            _ => {}
        }
        match frame {
            Some(Ok(Message::Text(text))) => match (parse(&text), over) {
                // A call is told so, everything else is taken, only later. So is an answer: it must not be lost.
                (FromBot::Call { id, tool, .. }, Some(over)) if tool != REPLY => {
                    let report = results::too_fast(over.limit, over.max as u64, over.retry_in_ms);
                    self.send_result(&Value::from(&*id), &raw(&report)).await
                }
                (frame, _) => self.obey(frame).await,
            },
            Some(Ok(Message::Close(_))) => {
                self.connection.said_goodbye();
                Err(None)
            }
            Some(Ok(Message::Binary(_))) => self.reject(CloseCode::Unsupported, "frames are JSON text"),
            Some(Ok(_)) => Ok(()),
            Some(Err(e)) => self.failed(&e),
            None => Err(None),
        }
    }

    fn failed(&self, error: &WsError) -> Result<(), End> {
        if let Some(over) = self.socket.get_ref().over {
            over.note(&self.engine, self.connection.name.as_str(), self.address);
            return Err(Some((CloseCode::Size, HALF_SENT)));
        }
        match error {
            WsError::Capacity(CapacityError::MessageTooLong { .. }) => self.reject(CloseCode::Size, "a frame has at most 4194304 bytes"),
            WsError::Utf8(_) => self.reject(CloseCode::Invalid, "text frames are UTF-8"),
            // Gone without a close frame: an ordinary end.
            WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Err(None),
            WsError::Protocol(_) => self.reject(CloseCode::Protocol, "not a WebSocket frame"),
            _ => Err(None),
        }
    }

    async fn obey(&mut self, frame: FromBot) -> Result<(), End> {
        match frame {
            FromBot::Hello(hello) => {
                self.restarting = hello.features.restarting;
                return self.introduce(Some(hello)).await;
            }
            // Before the introduction: what a bot says that it has is not sent to it again.
            FromBot::Received(id) => {
                let own = self.connection.received(id).await.map_err(|_| None)?;
                self.note_foreign("received", own);
            }
            FromBot::Heartbeat(id, session) => {
                let own = self.connection.heartbeat(id, session).await.map_err(|_| None)?;
                self.note_foreign("heartbeat", own);
            }
            FromBot::Call { id, tool, arguments, traceparent } => self.call(id, tool, arguments, traceparent).await?,
            FromBot::BadCall { id, why } => self.send_result(&id, &misuse(why.to_owned())).await?,
            FromBot::Ignored => {}
        }
        if self.introduced { Ok(()) } else { self.introduce(None).await }
    }

    async fn introduce(&mut self, hello: Option<crate::core::registry::Hello>) -> Result<(), End> {
        let first = !std::mem::replace(&mut self.introduced, true);
        self.connection.introduce(hello).await.map_err(|_| None)?;
        if first {
            self.connection.pay();
        }
        Ok(())
    }

    async fn call(&mut self, id: Arc<str>, tool: String, arguments: serde_json::Map<String, Value>, traceparent: Option<String>) -> Result<(), End> {
        if self.calls.len() >= MAX_CALLS {
            let text = format!("{MAX_CALLS} calls are under way on this connection; wait for one to end");
            self.note("calls under way", &text);
            return self.send_result(&Value::from(&*id), &misuse(text)).await;
        }
        let (engine, caller) = (self.engine.clone(), self.connection.name.clone());
        let room = self.gate.room(&caller);
        let context = tools::Context { caller, address: self.address, call_id: Some(id.clone()), traceparent, room };
        self.calls.spawn(async move {
            let result = match tools::call(&engine, &tool, arguments, &context).await {
                Ok(json) => RawValue::from_string(json).unwrap_or_default(),
                Err(wrong) => misuse(wrong.to_string()),
            };
            if engine.stopping().is_cancelled() && is_unfinished(&result) {
                // The bot sends its call again after the restart and gets the one result then.
                std::future::pending::<()>().await;
            }
            (Value::from(&*id), result, context.room)
        });
        Ok(())
    }

    async fn answer(&mut self, done: Result<Called, tokio::task::JoinError>) -> Result<(), End> {
        match done {
            Ok((id, result, _room)) => self.send_result(&id, &result).await,
            Err(e) => {
                tracing::error!(agent = %self.connection.name, error = %e, "a tool call panicked");
                Ok(())
            }
        }
    }

    async fn send_result(&mut self, id: &Value, result: &RawValue) -> Result<(), End> {
        let text = ToBot::result(id, result).text();
        self.send(Message::text(text)).await
    }

    async fn tell(&mut self, told: Told) -> Result<(), End> {
        let text = match &told {
            Told::Wake(wake) => ToBot::wake(wake).text(),
            Told::Cancelled(id) => ToBot::cancelled(*id).text(),
            Told::Answer(asked, late) => {
                self.send(Message::text(ToBot::answer(asked, late).text())).await?;
                // Its pong says that the answer came through.
                let payload = asked.id.as_u128().to_be_bytes().to_vec();
                return self.send(Message::Ping(payload.into())).await;
            }
            Told::Restarting => {
                if self.restarting {
                    self.send(Message::text(ToBot::restarting().text())).await?;
                }
                return Err(Some((CloseCode::Restart, "the relay restarts; come back soon")));
            }
        };
        self.send(Message::text(text)).await
    }

    async fn ping(&mut self) -> Result<(), End> {
        if self.silent_pings >= SILENT_PINGS {
            return Err(Some((CloseCode::Away, "two pings without an answer")));
        }
        self.silent_pings += 1;
        self.send(Message::Ping(Default::default())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), End> {
        let stopping = self.engine.stopping();
        let patience = async {
            tokio::select! {
                () = tokio::time::sleep(SEND_TIMEOUT) => {}
                () = async { stopping.cancelled().await; tokio::time::sleep(SEND_TIMEOUT_AT_STOP).await } => {}
            }
        };
        let sent = tokio::select! {
            sent = self.socket.send(message) => Ok(sent),
            () = patience => Err(()),
        };
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(None),
            Err(()) => {
                tracing::warn!(agent = %self.connection.name, "a bot takes nothing from its socket; closing it");
                Err(None)
            }
        }
    }
}

/// Never, for none.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn misuse(message: String) -> Box<RawValue> {
    raw(&results::misuse(message))
}

fn raw(report: &Report) -> Box<RawValue> {
    serde_json::value::to_raw_value(report).unwrap_or_default()
}

fn is_unfinished(result: &RawValue) -> bool {
    #[derive(serde::Deserialize)]
    struct Word<'a> {
        error: Option<&'a str>,
    }
    serde_json::from_str::<Word<'_>>(result.get()).is_ok_and(|word| word.error == Some(results::STILL_WORKING))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_the_default_numbers_a_dead_peer_is_noticed_within_a_minute() {
        let flags = crate::config::Flags { config: Some("/dev/null".into()), ..Default::default() };
        let every = crate::config::load(&flags, &|_| None).unwrap().ping_interval;
        // It may die right after it has answered a ping, and not even take the next.
        assert!(every * (SILENT_PINGS + 1) <= Duration::from_secs(60), "{every:?}");
        assert!(every + SEND_TIMEOUT < Duration::from_secs(60), "{every:?}");
    }
}
