//! `listen`: is a bot. For each question a command runs; what it prints is the answer. Owns the connection that comes
//! back by itself, and answers that are sent again until the relay has said that it has them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use futures_util::{FutureExt, SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use tokio_util::sync::CancellationToken;

use super::Outcome;
use super::client::{Identity, Relay};

const HEARTBEAT: Duration = Duration::from_secs(5);
const FIRST_RETRY_MS: u64 = 250;
const LAST_RETRY_MS: u64 = 10_000;
/// A relay that lives answers each of our pings, however seldom it sends its own.
const PING: Duration = Duration::from_secs(20);
/// Silence for so long means that the connection is dead; so does a frame that is not taken for so long.
const SILENCE: Duration = Duration::from_secs(60);
/// Questions remembered as answered. The relay sends one again only while it has no answer.
const ANSWERED: usize = 1_000;
/// How long a stop may take to tell the relay, so that nobody's question waits for the return.
const GOODBYE: Duration = Duration::from_secs(1);

#[derive(Args)]
#[command(after_help = "Examples:
  hermes-bridge listen --as bob --exec 'tr a-z A-Z'
  hermes-bridge listen --as bob --exec 'claude -p'
  hermes-bridge listen --url wss://bridge.example.org/bridge/connect --token $TOKEN --exec ./answer.sh

The question is the command's standard input, its standard output is the answer. In its environment:
HERMES_BRIDGE_REQUEST_ID, HERMES_BRIDGE_CONVERSATION_ID, HERMES_BRIDGE_FROM. A command that fails answers with the
outcome `failed` and the last line of its standard error. While it runs the relay hears heartbeats, however long it takes.")]
pub(crate) struct ListenArgs {
    #[command(flatten)]
    identity: Identity,
    /// Shell command to run for each question
    #[arg(long, value_name = "COMMAND")]
    exec: String,
    /// Questions answered at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// What a socket runs over: TCP, or in tests memory.
trait Io: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Io for S {}

pub(crate) fn run(args: ListenArgs) -> Outcome {
    super::runtime()?.block_on(async {
        let stop = CancellationToken::new();
        let mut terminate = signal(SignalKind::terminate()).map_err(|e| format!("signals cannot be received: {e}"))?;
        let stopped = async {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            stop.cancel();
            tokio::time::sleep(GOODBYE).await;
        };
        tokio::select! {
            outcome = Bot::new(args, stop.clone())?.live() => outcome,
            () = stopped => Ok(0),
        }
    })
}

struct Bot {
    args: ListenArgs,
    stop: CancellationToken,
    instance: String,
    jobs: JoinSet<(Question, Result<String, String>)>,
    waiting: Vec<Question>,
    /// A question sent again is not worked on again: neither one at work, nor one of the last that were answered.
    at_work: HashSet<String>,
    answered: VecDeque<String>,
    /// Answers that the relay has not acknowledged, by the id of their call.
    unacknowledged: HashMap<String, Value>,
}

#[derive(Clone)]
struct Question {
    request_id: String,
    conversation_id: String,
    from: String,
    message: String,
}

enum Ended {
    Lost(String),
    Fatal(String),
    /// By our owner.
    Stopped,
}

impl Bot {
    fn new(args: ListenArgs, stop: CancellationToken) -> Result<Self, String> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|e| e.to_string())?;
        let instance = format!("{:016x}", u64::from_le_bytes(bytes));
        let (jobs, waiting, at_work, answered, unacknowledged) = Default::default();
        Ok(Self { args, stop, instance, jobs, waiting, at_work, answered, unacknowledged })
    }

    /// Connects, again and again; ends only for what trying again cannot mend.
    async fn live(mut self) -> Outcome {
        let (mut retry, mut told) = (FIRST_RETRY_MS, String::new());
        loop {
            // Resolved each time: a token lent by the relay ends with the relay.
            let ended = match self.args.identity.resolve() {
                Err(why) => Ended::Lost(why),
                Ok(relay) => match connect(&relay).await {
                    Err(ended) => ended,
                    Ok(socket) => {
                        retry = FIRST_RETRY_MS;
                        super::complain(&format!("connected to {}", relay.url));
                        told.clear();
                        self.converse(socket).await
                    }
                },
            };
            match ended {
                Ended::Fatal(why) => return Err(why),
                Ended::Stopped => return Ok(0),
                // Once, however long it lasts.
                Ended::Lost(why) if why == told => {}
                Ended::Lost(why) => {
                    super::complain(&format!("{why}; trying again"));
                    told = why;
                }
            }
            self.rest(jittered(retry)).await;
            retry = (retry * 2).min(LAST_RETRY_MS);
        }
    }

    /// Waits while work goes on.
    async fn rest(&mut self, ms: u64) {
        let pause = tokio::time::sleep(Duration::from_millis(ms));
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => return,
                Some(done) = self.jobs.join_next() => { self.finished(done); }
            }
        }
    }

    async fn converse<S: Io>(&mut self, mut socket: WebSocketStream<S>) -> Ended {
        match self.speak(&mut socket).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    async fn speak<S: Io>(&mut self, socket: &mut WebSocketStream<S>) -> Result<std::convert::Infallible, Ended> {
        let features = json!(["answer", "cancelled", "restarting"]);
        let adapter = concat!("hermes-bridge listen ", env!("CARGO_PKG_VERSION"));
        tell(socket, &json!({"type": "hello", "adapter": adapter, "instance": self.instance, "features": features})).await?;
        for id in &self.at_work {
            tell(socket, &json!({"type": "received", "request_id": id})).await?;
        }
        for call in self.unacknowledged.values() {
            tell(socket, call).await?;
        }
        let mut heartbeats = tokio::time::interval(HEARTBEAT);
        let mut pings = tokio::time::interval(PING);
        // Beside the loop: what we do ourselves meanwhile breaks no silence.
        let silence = tokio::time::sleep(SILENCE);
        tokio::pin!(silence);
        loop {
            tokio::select! {
                () = &mut silence => return Err(silent()),
                frame = socket.next() => {
                    silence.as_mut().reset(Instant::now() + SILENCE);
                    if let Some(question) = self.heard(frame)? {
                        tell(socket, &json!({"type": "received", "request_id": question.request_id})).await?;
                    }
                    self.start_waiting();
                }
                Some(done) = self.jobs.join_next() => {
                    if let Some(call) = self.finished(done) {
                        tell(socket, &call).await?;
                    }
                    self.start_waiting();
                }
                () = self.stop.cancelled() => {
                    let _ = tokio::time::timeout(GOODBYE, socket.close(None)).await;
                    return Err(Ended::Stopped);
                }
                _ = pings.tick() => send(socket, Message::Ping(Default::default())).await?,
                _ = heartbeats.tick() => {
                    for id in &self.at_work {
                        tell(socket, &json!({"type": "heartbeat", "request_id": id})).await?;
                    }
                    // Said twice it is the same answer.
                    for call in self.unacknowledged.values() {
                        tell(socket, call).await?;
                    }
                }
            }
        }
    }

    /// Takes in one frame; a new question is returned so that its receipt can be acknowledged.
    fn heard(&mut self, frame: Option<Result<Message, WsError>>) -> Result<Option<Question>, Ended> {
        let text = match frame {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(frame))) => {
                let reason = frame.map(|f| f.reason.to_string()).filter(|r| !r.is_empty());
                return Err(Ended::Lost(format!("the relay closed the connection: {}", reason.as_deref().unwrap_or("no reason given"))));
            }
            Some(Ok(_)) => return Ok(None),
            Some(Err(e)) => return Err(Ended::Lost(format!("the connection was lost: {e}"))),
            None => return Err(Ended::Lost("the connection was lost".to_owned())),
        };
        let frame: Value = serde_json::from_str(&text).unwrap_or_default();
        let field = |key| frame[key].as_str().unwrap_or_default().to_owned();
        match frame["type"].as_str() {
            Some("wake") => {}
            Some("result") => {
                if is_settled(&frame["result"]) {
                    self.unacknowledged.remove(frame["id"].as_str().unwrap_or_default());
                }
                return Ok(None);
            }
            _ => return Ok(None),
        }
        let question =
            Question { request_id: field("request_id"), conversation_id: field("conversation_id"), from: field("from"), message: field("message") };
        if !self.answered.contains(&question.request_id) && self.at_work.insert(question.request_id.clone()) {
            super::complain(&format!("{} asks (request {})", question.from, question.request_id));
            self.waiting.push(question.clone());
        }
        Ok(Some(question))
    }

    fn start_waiting(&mut self) {
        while self.jobs.len() < usize::from(self.args.jobs) && !self.waiting.is_empty() {
            let question = self.waiting.remove(0);
            let command = self.args.exec.clone();
            self.jobs.spawn(async move {
                let answer = AssertUnwindSafe(run_command(&command, &question)).catch_unwind().await;
                (question, answer.unwrap_or_else(|_| Err("a fault of `listen` broke it off".to_owned())))
            });
        }
    }

    /// The answer of a command, as the call to send. Kept until the relay acknowledges it.
    fn finished(&mut self, done: Result<(Question, Result<String, String>), tokio::task::JoinError>) -> Option<Value> {
        let (question, answer) = done.ok()?;
        self.at_work.remove(&question.request_id);
        self.answered.truncate(ANSWERED - 1);
        self.answered.push_front(question.request_id.clone());
        let arguments = match answer {
            Ok(answer) => json!({"request_id": question.request_id, "answer": answer}),
            Err(why) => {
                super::complain(&format!("request {}: {why}", question.request_id));
                json!({"request_id": question.request_id, "error": "failed", "detail": why})
            }
        };
        let id = format!("{}-{}", self.instance, question.request_id);
        let call = json!({"type": "call", "id": id, "tool": "reply", "arguments": arguments});
        self.unacknowledged.insert(id, call.clone());
        Some(call)
    }
}

/// The relay has the answer on disk, or will never take it.
fn is_settled(result: &Value) -> bool {
    let passing = ["store_unavailable", "rate_limited"].map(Value::from);
    result["recorded"] != false && !passing.contains(&result["error"])
}

async fn connect(relay: &Relay) -> Result<Socket, Ended> {
    let address = format!("{}/bridge/connect", relay.url.replacen("http", "ws", 1));
    let bad = |e: &dyn std::fmt::Display| Ended::Fatal(format!("{address}: {e}"));
    let mut request = address.as_str().into_client_request().map_err(|e| bad(&e))?;
    let token = format!("Bearer {}", relay.token).parse().map_err(|_| bad(&"the token has characters that no header can carry"))?;
    request.headers_mut().insert(AUTHORIZATION, token);
    match tokio::time::timeout(Duration::from_secs(15), tokio_tungstenite::connect_async(request)).await {
        Ok(Ok((socket, _))) => Ok(socket),
        // 429 is over soon.
        Ok(Err(WsError::Http(response))) if response.status().is_client_error() && response.status() != StatusCode::TOO_MANY_REQUESTS => {
            let body: Value = response.body().as_deref().and_then(|b| serde_json::from_slice(b).ok()).unwrap_or_default();
            Err(Ended::Fatal(format!("{} says {}: {}", relay.url, response.status(), body["error"].as_str().unwrap_or("no reason given"))))
        }
        Ok(Err(e)) => Err(Ended::Lost(format!("{} does not answer: {e}", relay.url))),
        Err(_) => Err(Ended::Lost(format!("{} does not answer within 15 s", relay.url))),
    }
}

async fn tell<S: Io>(socket: &mut WebSocketStream<S>, frame: &Value) -> Result<(), Ended> {
    send(socket, Message::text(frame.to_string())).await
}

async fn send<S: Io>(socket: &mut WebSocketStream<S>, frame: Message) -> Result<(), Ended> {
    let sent = tokio::time::timeout(SILENCE, socket.send(frame)).await.map_err(|_| silent())?;
    sent.map_err(|e| Ended::Lost(format!("the connection was lost: {e}")))
}

fn silent() -> Ended {
    Ended::Lost("the relay is silent".to_owned())
}

async fn run_command(command: &str, question: &Question) -> Result<String, String> {
    let mut child = tokio::process::Command::new("sh")
        .arg("-c")
        .arg(command)
        .env("HERMES_BRIDGE_REQUEST_ID", &question.request_id)
        .env("HERMES_BRIDGE_CONVERSATION_ID", &question.conversation_id)
        .env("HERMES_BRIDGE_FROM", &question.from)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| format!("the command cannot be started: {e}"))?;
    let stdin = child.stdin.take();
    let message = question.message.clone();
    let feed = async move {
        if let Some(mut stdin) = stdin {
            // A command need not read its question.
            let _ = stdin.write_all(message.as_bytes()).await;
        }
    };
    let (output, ()) = tokio::join!(child.wait_with_output(), feed);
    let output = output.map_err(|e| format!("the command cannot be waited for: {e}"))?;
    let answer = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    let said = String::from_utf8_lossy(&output.stderr).lines().rfind(|l| !l.trim().is_empty()).unwrap_or("nothing on its standard error").to_owned();
    match (output.status.success(), answer.is_empty()) {
        (false, _) => Err(format!("its command ended with {}: {said}", output.status)),
        (true, true) => Err("its command printed nothing".to_owned()),
        (true, false) => Ok(answer),
    }
}

/// Half to all of it, at random, so that many bots do not come back at the same moment.
fn jittered(ms: u64) -> u64 {
    let mut byte = [0];
    let _ = getrandom::fill(&mut byte);
    ms / 2 + ms * u64::from(byte[0]) / 510
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tokio::io::DuplexStream;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ListenArgs,
    }

    /// A bot, its socket and the relay's end of it. In memory: the clock of a test jumps over what the kernel has on its way.
    async fn connected() -> (Bot, WebSocketStream<DuplexStream>, WebSocketStream<DuplexStream>) {
        let (here, there) = tokio::io::duplex(4_096);
        let (relay, dialled) = tokio::join!(tokio_tungstenite::accept_async(there), tokio_tungstenite::client_async("ws://relay/", here));
        let bot = Bot::new(Line::parse_from(["listen", "--exec", "true"]).args, CancellationToken::new()).unwrap();
        (bot, dialled.unwrap().0, relay.unwrap())
    }

    /// Against a relay that takes the connection and never says a word again, on a clock that jumps.
    async fn until_it_is_noticed(work: impl FnOnce(&mut Bot)) -> Duration {
        let (mut bot, socket, _silent) = connected().await;
        work(&mut bot);
        let begun = Instant::now();
        let ended = tokio::time::timeout(10 * SILENCE, bot.converse(socket)).await;
        assert!(matches!(&ended, Ok(Ended::Lost(why)) if why == "the relay is silent"), "it is not noticed");
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_that_falls_silent_is_noticed_within_a_minute_though_heartbeats_go_on() {
        let took = until_it_is_noticed(|bot| _ = bot.at_work.insert("a request".to_owned())).await;
        assert!(took <= Duration::from_secs(61), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_that_reads_no_more_is_noticed_within_a_minute() {
        let call = json!("x".repeat(32 << 20));
        let took = until_it_is_noticed(|bot| _ = bot.unacknowledged.insert("a call".to_owned(), call)).await;
        assert!(took <= Duration::from_secs(61), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_that_only_answers_pings_is_not_silent() {
        let (mut bot, socket, mut relay) = connected().await;
        // Reading is what answers pings.
        let answering = async { while relay.next().await.is_some_and(|frame| frame.is_ok()) {} };
        let ended = tokio::time::timeout(10 * SILENCE, async { tokio::join!(bot.converse(socket), answering) }).await;
        assert!(ended.is_err(), "a healthy connection was given up");
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_sent_again_is_worked_on_once_and_what_was_answered_long_ago_is_forgotten() {
        let (mut bot, ..) = connected().await;
        let wake = |n: usize| Some(Ok(Message::text(json!({"type": "wake", "request_id": n.to_string(), "message": "?"}).to_string())));
        for n in 0..2 * ANSWERED {
            for _ in 0..2 {
                assert!(bot.heard(wake(n)).is_ok());
            }
            assert_eq!((bot.waiting.len(), bot.at_work.len()), (1, 1), "question {n}");
            let question = bot.waiting.remove(0);
            assert!(bot.finished(Ok((question, Ok("!".to_owned())))).is_some());
            assert!(bot.heard(wake(n)).is_ok() && bot.waiting.is_empty(), "question {n} is answered");
            let result = json!({"type": "result", "id": format!("{}-{n}", bot.instance)});
            assert!(bot.heard(Some(Ok(Message::text(result.to_string())))).is_ok());
        }
        assert_eq!((bot.answered.len(), bot.at_work.len(), bot.unacknowledged.len()), (ANSWERED, 0, 0));
    }
}
