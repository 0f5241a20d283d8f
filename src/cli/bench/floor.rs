//! The floor: an echo relay with no logic, for the same bytes over the same doors.
//!
//! A question goes to its bot's WebSocket, the bot's reply goes back as one event; optionally after one append and
//! fdatasync. Owns tables of sockets and waiting askers; keeps no rules, no history, no deadline, and is never
//! reachable but from this machine. Ends with its parent, whose pipe is its standard input.

use super::floor_log::FloorLog;
use super::floor_wire::{self as wire, Arguments, Call, Frame};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode, service::service_fn, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Utf8Bytes, handshake::derive_accept_key};

/// Wakes that one bot may have unsent; a further question to it is answered 503.
const WAKES: usize = 4096;

struct Floor {
    names: HashMap<String, String>,
    bots: Mutex<HashMap<String, mpsc::Sender<Utf8Bytes>>>,
    waiting: Mutex<HashMap<u64, Waiting>>,
    next: AtomicU64,
    list: String,
    log: Option<FloorLog>,
}

struct Waiting {
    question: Bytes,
    asker: oneshot::Sender<String>,
}

type Answer = Result<Response<Full<Bytes>>, StatusCode>;

/// Serves until standard input ends. `tokens` holds one `name token` a line; with `log` the floor is durable.
pub(super) async fn serve(tokens: &str, log: Option<&Path>) -> Result<(), String> {
    let failed = |e| format!("listen: {e}");
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let addr = listener.local_addr().map_err(failed)?;
    writeln!(std::io::stdout(), "listening on http://{addr}").map_err(|e| format!("stdout: {e}"))?;
    let (parent, parent_gone) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(parent);
    });
    tokio::select! {
        ended = accept(listener, tokens, log) => ended,
        _ = parent_gone => Ok(()),
    }
}

/// Serves until it is dropped.
pub(super) async fn accept(listener: TcpListener, tokens: &str, log: Option<&Path>) -> Result<(), String> {
    let names = tokens.lines().filter_map(|line| line.split_once(' '));
    let names: HashMap<String, String> = names.map(|(name, token)| (token.to_owned(), name.to_owned())).collect();
    let floor = Arc::new(Floor {
        list: wire::list(names.values()),
        names,
        bots: Mutex::default(),
        waiting: Mutex::default(),
        next: AtomicU64::new(1),
        log: log.map(FloorLog::open).transpose()?,
    });
    loop {
        let (tcp, _) = listener.accept().await.map_err(|e| format!("accept: {e}"))?;
        tokio::spawn(connection(floor.clone(), tcp));
    }
}

async fn connection(floor: Arc<Floor>, tcp: TcpStream) {
    let _ = tcp.set_nodelay(true);
    let service = service_fn(move |request| {
        let floor = floor.clone();
        async move {
            let response = floor.answer(request).await;
            Ok::<_, std::convert::Infallible>(response.unwrap_or_else(|status| {
                let mut response = Response::new(Full::default());
                *response.status_mut() = status;
                response
            }))
        }
    });
    let http = hyper::server::conn::http1::Builder::new();
    let _ = http.serve_connection(TokioIo::new(tcp), service).with_upgrades().await;
}

impl Floor {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        if request.uri().path() == "/ready" {
            return Ok(Response::new(Full::default()));
        }
        let token = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let token = token.and_then(|v| v.strip_prefix("Bearer "));
        let name = token.and_then(|t| self.names.get(t)).ok_or(StatusCode::UNAUTHORIZED)?.clone();
        match request.uri().path() {
            "/mcp" => {
                let body = request.into_body().collect().await;
                let body = body.map_err(|_| StatusCode::BAD_REQUEST)?.to_bytes();
                self.mcp(&name, body).await
            }
            "/bridge/connect" => self.upgrade(name, request),
            _ => Err(StatusCode::NOT_FOUND),
        }
    }

    async fn mcp(&self, from: &str, body: Bytes) -> Answer {
        let call: Call<'_> = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
        let arguments = &call.params.arguments;
        let result = match &*call.params.name {
            "ask_agent" => self.ask(from, arguments, body.clone()).await?,
            "reply" => self.reply(&arguments.request_id, &arguments.answer).await?,
            "list_agents" => return Ok(wire::event(call.id, &self.list)),
            _ => return Err(StatusCode::NOT_FOUND),
        };
        Ok(wire::event(call.id, &wire::quoted(result)))
    }

    async fn ask(&self, from: &str, call: &Arguments<'_>, body: Bytes) -> Result<String, StatusCode> {
        let Some(bot) = lock(&self.bots).get(&*call.to).cloned() else {
            return Ok(r#"{"ok":false,"error":"agent_offline"}"#.to_owned());
        };
        let request = self.next.fetch_add(1, Ordering::Relaxed);
        let (asker, answer) = oneshot::channel();
        lock(&self.waiting).insert(request, Waiting { question: body, asker });
        let wake = wire::wake(request, from, &call.message);
        bot.try_send(wake.into()).map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        let answer = answer.await.map_err(|_| StatusCode::GONE)?;
        Ok(wire::answered(request, &answer))
    }

    async fn reply(&self, request_id: &str, answer: &str) -> Result<String, StatusCode> {
        let request = request_id.parse().map_err(|_| StatusCode::BAD_REQUEST)?;
        let waiting = lock(&self.waiting).remove(&request).ok_or(StatusCode::NOT_FOUND)?;
        if let Some(log) = &self.log {
            let record = [&waiting.question[..], answer.as_bytes(), b"\n"].concat();
            log.append(record).await.map_err(|_| StatusCode::INSUFFICIENT_STORAGE)?;
        }
        let _ = waiting.asker.send(answer.to_owned()); // an asker that left
        Ok(r#"{"ok":true}"#.to_owned())
    }

    fn upgrade(self: Arc<Self>, name: String, mut request: Request<Incoming>) -> Answer {
        let key = request.headers().get(header::SEC_WEBSOCKET_KEY).ok_or(StatusCode::BAD_REQUEST)?;
        let accept = derive_accept_key(key.as_bytes());
        let accept = HeaderValue::from_str(&accept).map_err(|_| StatusCode::BAD_REQUEST)?;
        let upgraded = hyper::upgrade::on(&mut request);
        let (sender, wakes) = mpsc::channel(WAKES);
        lock(&self.bots).insert(name, sender);
        tokio::spawn(async move {
            if let Ok(upgraded) = upgraded.await {
                self.bot(upgraded, wakes).await;
            }
        });
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        Ok(response)
    }

    /// Wakes out; replies as frames in. Ends with the connection, or when a newer one takes the bot's place.
    async fn bot(&self, upgraded: Upgraded, mut wakes: mpsc::Receiver<Utf8Bytes>) {
        let config = WebSocketConfig::default().read_buffer_size(4096);
        let io = TokioIo::new(upgraded);
        let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        loop {
            let text = tokio::select! {
                wake = wakes.recv() => match wake { Some(wake) => wake, None => return },
                frame = socket.next() => match frame {
                    Some(Ok(Message::Text(text))) => match self.frame(&text).await {
                        Some(result) => result,
                        None => continue,
                    },
                    Some(Ok(_)) => continue,
                    _ => return,
                },
            };
            if socket.send(Message::Text(text)).await.is_err() {
                return;
            }
        }
    }

    async fn frame(&self, text: &str) -> Option<Utf8Bytes> {
        let frame: Frame<'_> = serde_json::from_str(text).ok()?;
        let arguments = frame.arguments?;
        let result = self.reply(&arguments.request_id, &arguments.answer).await.ok()?;
        let id = frame.id;
        Some(format!("{{\"type\":\"result\",\"id\":\"{id}\",\"result\":{result}}}").into())
    }
}

/// The tables stay whole whatever a holder did: each is touched by one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
