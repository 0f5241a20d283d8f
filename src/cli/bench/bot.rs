//! A bot: hears wakes on its WebSocket and answers each, by its own HTTP connections or by frames.
//!
//! Decides nothing about what is answered (`script` does) and measures nothing. A bot that cannot do its work ends
//! with the reason, which ends the round.

use super::check::{self, Failure};
use super::client::{Connection, Socket, connect_bot};
use super::proc;
use super::script::{self, Frame};
use super::server::{Agent, Endpoint};
use clap::ValueEnum;
use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::Message;

/// How bots answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum ReplyBy {
    /// The tool `reply` by POST /mcp, on a connection beside the WebSocket
    Http,
    /// A `call` frame over the WebSocket
    Ws,
}

pub(super) struct Bot {
    agent: Agent,
    endpoint: Endpoint,
    socket: Socket,
    by: ReplyBy,
    /// Keep-alive connections that carry no reply at the moment: as many as wakes ever overlapped.
    idle: Vec<Connection>,
    /// Tells this connection's calls from those of earlier rounds.
    instance: String,
    calls: u64,
}

impl Bot {
    /// Connects and says hello.
    pub(super) async fn join(endpoint: &Endpoint, agent: &Agent, by: ReplyBy) -> Result<Self, String> {
        let mut socket = connect_bot(endpoint, agent).await?;
        let instance = proc::random_hex()?;
        let hello = Message::text(script::hello_frame(&instance));
        socket.send(hello).await.map_err(|e| format!("hello of {}: {e}", agent.name))?;
        let mut idle = Vec::new();
        if by == ReplyBy::Http {
            idle.push(Connection::open(endpoint, agent).await?);
        }
        Ok(Self { agent: agent.clone(), endpoint: endpoint.clone(), socket, by, idle, instance, calls: 0 })
    }

    /// Answers wakes until it is dropped; what it returns is why it could not go on.
    pub(super) async fn serve(mut self) -> String {
        let mut replies = FuturesUnordered::new();
        loop {
            tokio::select! {
                frame = self.socket.next() => match self.heard(frame).await {
                    Ok(Some((id, request, answer))) => match self.connection().await {
                        Ok(connection) => replies.push(reply(connection, id, request, answer)),
                        Err(error) => return error,
                    },
                    Ok(None) => {}
                    Err(error) => return error,
                },
                Some(done) = replies.next(), if !replies.is_empty() => match done {
                    Ok(connection) => self.idle.push(connection),
                    Err(error) => return format!("reply of {}: {error}", self.agent.name),
                },
            }
        }
    }

    /// A frame's consequence: a reply to send over HTTP, or nothing more.
    async fn heard(
        &mut self,
        frame: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>,
    ) -> Result<Option<(u64, String, String)>, String> {
        let name = &self.agent.name;
        let text = match frame {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(why))) => {
                return Err(format!("the relay closed the WebSocket of {name}: {why:?}"));
            }
            Some(Ok(_)) => return Ok(None),
            Some(Err(e)) => return Err(format!("WebSocket of {name}: {e}")),
            None => return Err(format!("WebSocket of {name}: it ended")),
        };
        let frame: Frame<'_> = serde_json::from_str(&text).map_err(|e| format!("frame to {name}: {e}: {text}"))?;
        match &*frame.kind {
            "wake" | "" => {}
            "result" => {
                let accepted = frame.result.map_or(Ok(()), |outcome| outcome.accepted());
                return accepted.map(|()| None).map_err(|e| format!("reply of {name}: {e}"));
            }
            _ => return Ok(None),
        }
        self.calls += 1;
        let Some(answer) = script::answer_to(&frame.message, name, &frame.from) else {
            return Ok(None); // somebody else's question
        };
        if self.by == ReplyBy::Http {
            return Ok(Some((self.calls, frame.request_id.into_owned(), answer)));
        }
        let id = format!("{}-{}", self.instance, self.calls);
        let reply = script::reply_frame(&id, &frame.request_id, &answer);
        let sent = self.socket.send(Message::text(reply)).await;
        sent.map(|()| None).map_err(|e| format!("WebSocket of {name}: {e}"))
    }

    async fn connection(&mut self) -> Result<Connection, String> {
        match self.idle.pop() {
            Some(connection) => Ok(connection),
            None => Connection::open(&self.endpoint, &self.agent).await,
        }
    }
}

async fn reply(mut connection: Connection, id: u64, request_id: String, answer: String) -> Result<Connection, Failure> {
    let body = script::reply_body(id, &request_id, &answer);
    let reply = connection.call(body).await.map_err(Failure::Other)?;
    check::check_reply(id, &reply.payload)?;
    Ok(connection)
}
