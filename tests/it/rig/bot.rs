//! One socket of a bot, driven step by step by the test.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::{soon, text};

pub type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

pub struct Bot {
    pub name: String,
    pub socket: Socket,
    /// Frames that came while another was waited for.
    backlog: VecDeque<Value>,
    calls: u32,
}

impl Bot {
    pub async fn connect(url: &str, name: &str, token: &str) -> Result<Self, Error> {
        let mut request = format!("{}/bridge/connect", url.replacen("http", "ws", 1)).into_client_request()?;
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        let (socket, _) = soon("a bot connects", tokio_tungstenite::connect_async(request)).await?;
        Ok(Self { name: name.to_owned(), socket, backlog: VecDeque::new(), calls: 0 })
    }

    pub async fn hello(&mut self, instance: &str) {
        let features = ["answer", "cancelled", "restarting"];
        self.send(json!({"type": "hello", "adapter": "test 1", "instance": instance, "features": features})).await;
    }

    pub async fn send(&mut self, frame: Value) {
        self.socket.send(Message::text(frame.to_string())).await.unwrap();
    }

    pub async fn heartbeat(&mut self, request_id: &str) {
        self.send(json!({"type": "heartbeat", "request_id": request_id})).await;
    }

    pub async fn received(&mut self, request_id: &str) {
        self.send(json!({"type": "received", "request_id": request_id})).await;
    }

    /// The next JSON frame from the socket; `Err` with the close code when there is none any more.
    async fn read(&mut self) -> Result<Value, Option<u16>> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return Err(frame.map(|f| f.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// The next JSON frame; `None` when the socket is closed or lost.
    pub async fn frame(&mut self) -> Option<Value> {
        self.read().await.ok()
    }

    /// The first frame of that type, others are kept.
    pub async fn next(&mut self, kind: &str) -> Value {
        if let Some(at) = self.backlog.iter().position(|f| f["type"] == kind) {
            return self.backlog.remove(at).unwrap();
        }
        loop {
            let what = format!("{} is sent a frame of type {kind}", self.name);
            match soon(&what, self.read()).await {
                Ok(frame) if frame["type"] == kind => return frame,
                Ok(frame) => self.backlog.push_back(frame),
                Err(code) => panic!("{what}: closed with {code:?}"),
            }
        }
    }

    /// Of the frames that came while others were waited for.
    pub fn has_none(&self, kind: &str) -> bool {
        self.backlog.iter().all(|f| f["type"] != kind)
    }

    pub async fn wake(&mut self) -> Value {
        self.next("wake").await
    }

    /// Sends a call without waiting for its result.
    pub async fn begin_call(&mut self, id: &str, tool: &str, arguments: Value) {
        self.send(json!({"type": "call", "id": id, "tool": tool, "arguments": arguments})).await;
    }

    pub async fn result_of(&mut self, id: &str) -> Value {
        if let Some(at) = self.backlog.iter().position(|f| f["type"] == "result" && f["id"] == id) {
            return self.backlog.remove(at).unwrap()["result"].take();
        }
        loop {
            match soon("a result", self.read()).await {
                Ok(mut frame) if frame["type"] == "result" && frame["id"] == id => return frame["result"].take(),
                Ok(frame) => self.backlog.push_back(frame),
                Err(code) => panic!("{} waits for the result of {id}: closed with {code:?}", self.name),
            }
        }
    }

    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.calls += 1;
        let id = format!("{}-{}", self.name, self.calls);
        self.begin_call(&id, tool, arguments).await;
        self.result_of(&id).await
    }

    pub async fn answer(&mut self, wake: &Value, answer: &str) -> Value {
        self.call("reply", json!({"request_id": text(wake, "request_id"), "answer": answer})).await
    }

    /// What was said before has been taken in and is on disk: a refused ask goes the same way as everything else.
    pub async fn settle(&mut self) {
        self.calls += 1;
        let id = format!("settle-{}-{}", self.name, self.calls);
        self.begin_call(&id, "ask_agent", json!({"to": self.name.clone(), "message": "settle"})).await;
        assert_eq!(self.result_of(&id).await["error"], "self_ask");
    }

    /// No wake has come or comes: neither before a round trip through the relay's store nor shortly after it.
    pub async fn is_not_woken(&mut self) {
        self.settle().await;
        self.settle().await;
        if let Ok(Ok(frame)) = tokio::time::timeout(Duration::from_millis(50), self.read()).await {
            self.backlog.push_back(frame);
        }
        assert!(self.backlog.iter().all(|f| f["type"] != "wake"), "{} was woken: {:?}", self.name, self.backlog);
    }

    /// How the relay closes this socket; what was sent before is in the list.
    pub async fn closed(&mut self) -> (Option<u16>, Vec<Value>) {
        loop {
            match soon("the relay closes a socket", self.read()).await {
                Ok(frame) => self.backlog.push_back(frame),
                Err(code) => return (code, std::mem::take(&mut self.backlog).into()),
            }
        }
    }

    /// Leaves with a close frame and waits until the relay has closed too.
    pub async fn say_goodbye(mut self) {
        self.socket.close(None).await.unwrap();
        self.closed().await;
    }
}
