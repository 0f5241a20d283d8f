//! One keep-alive HTTP/1.1 connection to a relay's `/mcp`, and the WebSocket of a bot, as cheap as they get.
//!
//! hyper's connection is driven by the caller's own task, because the client shares its cores with the relay that
//! it measures. Never retries, never reconnects, holds no deadline: whoever calls sets one.

use super::server::{Agent, Endpoint};
use super::sse::SseReader;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{client::IntoClientRequest as _, protocol::WebSocketConfig};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// A bot's WebSocket.
pub(super) type Socket = WebSocketStream<TcpStream>;

type Driver = Pin<Box<http1::Connection<TokioIo<TcpStream>, Full<Bytes>>>>;

/// One connection, one call at a time.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Driver,
    ended: bool,
    host: HeaderValue,
    authorization: HeaderValue,
    events: SseReader,
}

/// The JSON-RPC response and the moment it was whole.
pub(super) struct Reply {
    pub payload: Vec<u8>,
    pub at: Instant,
}

impl Connection {
    pub(super) async fn open(endpoint: &Endpoint, agent: &Agent) -> Result<Self, String> {
        let tcp = connect(endpoint).await?;
        let (sender, driver) = http1::handshake(TokioIo::new(tcp)).await.map_err(|e| format!("HTTP handshake with {}: {e}", endpoint.addr))?;
        Ok(Self {
            sender,
            driver: Box::pin(driver),
            ended: false,
            host: value(&endpoint.addr.to_string())?,
            authorization: value(&format!("Bearer {}", agent.token))?,
            events: SseReader::default(),
        })
    }

    /// A POST to `/mcp`: its JSON-RPC response, whether it comes as an event or as plain JSON.
    pub(super) async fn call(&mut self, body: Bytes) -> Result<Reply, String> {
        let request = Request::post("/mcp")
            .header(header::HOST, &self.host)
            .header(header::AUTHORIZATION, &self.authorization)
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header(header::CONTENT_TYPE, "application/json")
            .header("mcp-protocol-version", "2025-11-25")
            .body(Full::new(body))
            .map_err(|e| format!("POST /mcp: {e}"))?;
        let response = self.send(request).await?;
        if response.status() != StatusCode::OK {
            let status = response.status();
            let text = self.whole_body(response.into_body()).await?;
            return Err(format!("POST /mcp: {status} {}", String::from_utf8_lossy(&text)));
        }
        let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        if kind.is_some_and(|kind| kind.starts_with(b"application/json")) {
            let payload = self.whole_body(response.into_body()).await?;
            return Ok(Reply { payload, at: Instant::now() });
        }
        self.first_event(response.into_body()).await
    }

    /// Status and body of a GET.
    pub(super) async fn get(&mut self, path: &str) -> Result<(StatusCode, Vec<u8>), String> {
        let request = Request::get(path).header(header::HOST, &self.host).body(Full::default()).map_err(|e| format!("GET {path}: {e}"))?;
        let response = self.send(request).await?;
        let status = response.status();
        Ok((status, self.whole_body(response.into_body()).await?))
    }

    /// Comes back for a stream that was cut: the body of the answer, whatever it says.
    pub(super) async fn take_up(&mut self, event_id: &str) -> Result<Vec<u8>, String> {
        let request = Request::get("/mcp")
            .header(header::HOST, &self.host)
            .header(header::AUTHORIZATION, &self.authorization)
            .header("last-event-id", event_id)
            .body(Full::default())
            .map_err(|e| format!("GET /mcp: {e}"))?;
        let response = self.send(request).await?;
        self.whole_body(response.into_body()).await
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        let sender = &mut self.sender;
        let exchange = async move {
            sender.ready().await?;
            sender.send_request(request).await
        };
        driven(&mut self.driver, &mut self.ended, exchange)
            .await
            .ok_or("the relay closed a connection with a call on it")?
            .map_err(|e| format!("HTTP call: {e}"))
    }

    async fn first_event(&mut self, mut body: Incoming) -> Result<Reply, String> {
        self.events.reset();
        let mut reply = None;
        while let Some(bytes) = self.chunk(&mut body).await? {
            if reply.is_some() {
                continue; // the rest of the stream: empty, but the connection is free only after it
            }
            self.events.push(&bytes);
            reply = self.events.next_event().map(|payload| Reply { payload, at: Instant::now() });
        }
        reply.ok_or_else(|| "a stream that ended without the JSON-RPC response".to_owned())
    }

    async fn whole_body(&mut self, mut body: Incoming) -> Result<Vec<u8>, String> {
        let mut whole = Vec::new();
        while let Some(bytes) = self.chunk(&mut body).await? {
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }

    async fn chunk(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, String> {
        loop {
            let frame = driven(&mut self.driver, &mut self.ended, body.frame()).await.ok_or("the relay closed a connection inside an answer")?;
            match frame {
                None => return Ok(None),
                Some(Err(e)) => return Err(format!("HTTP body: {e}")),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}

/// Runs `future` and, beneath it, the connection that it waits for. `None`: the connection ended first.
async fn driven<F: Future>(driver: &mut Driver, ended: &mut bool, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        if !*ended {
            *ended = driver.as_mut().poll(cx).is_ready();
        }
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if *ended => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The WebSocket of a bot at `/bridge/connect`.
pub(super) async fn connect_bot(endpoint: &Endpoint, agent: &Agent) -> Result<Socket, String> {
    let failed = |e: &dyn std::fmt::Display| format!("WebSocket of {}: {e}", agent.name);
    let mut request = format!("ws://{}/bridge/connect", endpoint.addr).into_client_request().map_err(|e| failed(&e))?;
    request.headers_mut().insert(header::AUTHORIZATION, value(&format!("Bearer {}", agent.token))?);
    let config = WebSocketConfig::default().read_buffer_size(4096);
    let tcp = connect(endpoint).await?;
    let (socket, _) = client_async_with_config(request, tcp, Some(config)).await.map_err(|e| failed(&e))?;
    Ok(socket)
}

async fn connect(endpoint: &Endpoint) -> Result<TcpStream, String> {
    let failed = |e: std::io::Error| format!("connect to {}: {e}", endpoint.addr);
    let tcp = TcpStream::connect(endpoint.addr).await.map_err(failed)?;
    tcp.set_nodelay(true).map_err(failed)?;
    Ok(tcp)
}

fn value(text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(text).map_err(|e| format!("a header value that HTTP forbids: {e}"))
}
