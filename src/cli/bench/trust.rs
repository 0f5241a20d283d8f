//! What must cost nothing and tell nothing: how long it takes to hear that an id is unknown, for one that is another bot's and
//! for one that is nobody's; how long a wrong token takes, wherever it is wrong; and what the limits cost.
//!
//! Owns the questions and their order: a foreign id and an unknown one in turn, the first of each pair by a dice, so that
//! whatever disturbs the machine disturbs both alike.

use super::bot::{Bot, ReplyBy};
use super::client::{Connection, Socket, connect_bot};
use super::load::{self, Figures, Level, limited};
use super::progress;
use super::report::{Ratios, medians, ratios};
use super::script;
use super::server::{Agent, Endpoint, Kind, LIMITS, Launcher};
use super::stats::{median, ratio};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Serialize;
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::Message;

/// As a relay comes, but for one limit: all callers of this bench are one address.
const AS_IT_COMES: &str = "[ui]\nopen = true\n[limits]\nrequests_per_second_per_address = 1000000000\n";
const ASKERS: usize = 64;

#[derive(Serialize)]
pub(super) struct Trust {
    pub pairs: usize,
    pub same_time: Vec<SameTime>,
    pub limits: LimitsCost,
}

/// Medians of one question about the one id and the other.
#[derive(Serialize)]
pub(super) struct SameTime {
    pub what: &'static str,
    pub foreign_us: f64,
    pub unknown_us: f64,
    pub ratio: f64,
}

#[derive(Serialize)]
pub(super) struct LimitsCost {
    pub askers: usize,
    pub on: Figures,
    pub out_of_reach: Figures,
    pub ratios: Option<Ratios>,
    pub cpu_ratio: Option<f64>,
}

/// `bytes`: of the foreign question and its answer.
pub(super) async fn measure(launcher: &Launcher, bytes: usize, pairs: usize, rounds: usize, window: Duration) -> Result<Trust, String> {
    progress("foreign ids, unknown ids and wrong tokens, in turn");
    let server = launcher.start(Kind::Relay, 2, 2).await?;
    let same_time = Spy::prepare(&server.endpoint, bytes).await?.look(pairs).await?;
    server.stop().await;
    Ok(Trust { pairs, same_time, limits: limits(launcher, bytes, rounds, window).await? })
}

async fn limits(launcher: &Launcher, bytes: usize, rounds: usize, window: Duration) -> Result<LimitsCost, String> {
    let with = |extra: &str| Launcher {
        relay: launcher.relay.clone(),
        floor: launcher.floor.clone(),
        parent: launcher.parent.clone(),
        extra: extra.to_owned(),
    };
    let servers = [with(AS_IT_COMES).start(Kind::Relay, ASKERS, ASKERS).await?, with(LIMITS).start(Kind::Relay, ASKERS, ASKERS).await?];
    let level = Level { askers: ASKERS, bots: ASKERS, bytes, reply: ReplyBy::Http, warm_up: window / 5, window };
    let mut all = [Vec::new(), Vec::new()];
    for round in 1..=rounds {
        progress(&format!("asks with the limits as they come, and out of reach: round {round} of {rounds}"));
        for (server, figures) in servers.iter().zip(&mut all) {
            figures.push(load::asks(&server.endpoint, level).await?);
        }
    }
    for server in servers {
        server.stop().await;
    }
    let [on, out_of_reach] = all;
    let cpu = on.iter().zip(&out_of_reach).filter_map(|(a, b)| ratio(a.server_cpu_ms_per_call, b.server_cpu_ms_per_call));
    let (cpu_ratio, on_and_off) = (median(cpu), (medians(&on), medians(&out_of_reach)));
    let ratios = ratios(&Some(on), &Some(out_of_reach));
    Ok(LimitsCost { askers: ASKERS, on: on_and_off.0, out_of_reach: on_and_off.1, ratios, cpu_ratio })
}

/// A bot that wants to know what is not its own.
struct Spy {
    endpoint: Endpoint,
    http: Connection,
    socket: Socket,
    /// Answered, and still open; the conversation of the first.
    ended: String,
    open: String,
    conversation: String,
    calls: u64,
}

impl Spy {
    async fn prepare(endpoint: &Endpoint, bytes: usize) -> Result<Self, String> {
        let (asker, spy) = (&endpoint.askers[0], &endpoint.askers[1]);
        let bot = Bot::join(endpoint, &endpoint.bots[0], ReplyBy::Http).await?;
        let answering = tokio::spawn(bot.serve());
        let mut asking = Connection::open(endpoint, asker).await?;
        let answered = limited("an answer", asking.call(script::ask_body(1, &endpoint.bots[0].name, 7, bytes))).await?.payload;
        let waiting = format!(r#"{{"to":"{}","message":"for later","when_offline":"queue"}}"#, endpoint.bots[1].name);
        let queued = limited("a place in a line", asking.call(tool(2, "ask_agent", &waiting))).await?.payload;
        answering.abort();
        Ok(Self {
            endpoint: endpoint.clone(),
            http: Connection::open(endpoint, spy).await?,
            socket: connect_bot(endpoint, spy).await?,
            ended: field(&answered, "request_id")?,
            open: field(&queued, "request_id")?,
            conversation: field(&answered, "conversation_id")?,
            calls: 0,
        })
    }

    async fn look(mut self, pairs: usize) -> Result<Vec<SameTime>, String> {
        let (ended, open, conversation) = (self.ended.clone(), self.open.clone(), self.conversation.clone());
        let kinds: [(&'static str, Question, &str); 9] = [
            ("reply, ended", Question::Reply, &ended),
            ("reply, open", Question::Reply, &open),
            ("get_answer, ended", Question::GetAnswer, &ended),
            ("get_answer, open", Question::GetAnswer, &open),
            ("Last-Event-ID", Question::TakeUp, &ended),
            ("conversation", Question::Conversation, &conversation),
            ("heartbeat", Question::Frame("heartbeat"), &open),
            ("received", Question::Frame("received"), &open),
            ("a wrong token", Question::Token, "0"),
        ];
        let mut found = Vec::new();
        for (what, question, real) in kinds {
            let mut took = [Vec::new(), Vec::new()];
            for n in 0..pairs as u64 {
                let dice = script::mix(n ^ 0x5eed);
                for turn in 0..2 {
                    let foreign = (dice & 1 == 0) == (turn == 0);
                    let id = if foreign { real.to_owned() } else { unknown(real, dice) };
                    let us = limited(what, self.put(question, &id)).await.map_err(|e| format!("{what}: {e}"))?;
                    took[usize::from(!foreign)].push(us);
                }
            }
            let [foreign_us, unknown_us] = took.map(|us| median(us).unwrap_or_default());
            found.push(SameTime { what, foreign_us, unknown_us, ratio: ratio(Some(foreign_us), Some(unknown_us)).unwrap_or_default() });
        }
        Ok(found)
    }

    /// Microseconds until the answer that says nothing.
    async fn put(&mut self, question: Question, id: &str) -> Result<f64, String> {
        self.calls += 1;
        let n = self.calls;
        let begun = Instant::now();
        let told = match question {
            Question::Reply => self.http.call(tool(n, "reply", &format!(r#"{{"request_id":"{id}","answer":"mine"}}"#))).await?.payload,
            Question::GetAnswer => self.http.call(tool(n, "get_answer", &format!(r#"{{"request_id":"{id}","wait_seconds":0}}"#))).await?.payload,
            Question::Conversation => {
                let to = &self.endpoint.bots[0].name;
                self.http.call(tool(n, "ask_agent", &format!(r#"{{"to":"{to}","message":"and me?","conversation_id":"{id}"}}"#))).await?.payload
            }
            Question::TakeUp => self.http.take_up(&format!("{id}.37")).await?,
            Question::Frame(kind) => self.frame(kind, id, n).await?,
            Question::Token => {
                let token = right_but(&self.endpoint.askers[1].token, id == "0");
                let mut stranger = Connection::open(&self.endpoint, &Agent { name: String::new(), token }).await?;
                let begun = Instant::now();
                let told = stranger.call(script::list_body(n)).await;
                return if told.is_err() { Ok(begun.elapsed().as_secs_f64() * 1e6) } else { Err("it is let in".to_owned()) };
            }
        };
        let took = begun.elapsed().as_secs_f64() * 1e6;
        let told = String::from_utf8_lossy(&told);
        let nothing = ["unknown_request", "unknown_conversation", "no such stream", "agents"].iter().any(|word| told.contains(word));
        if nothing { Ok(took) } else { Err(format!("it is told {told}")) }
    }

    /// A frame that is not answered, and behind it a call that is.
    async fn frame(&mut self, kind: &str, id: &str, n: u64) -> Result<Vec<u8>, String> {
        let frame = format!(r#"{{"type":"{kind}","request_id":"{id}"}}"#);
        let call = format!(r#"{{"type":"call","id":"{n}","tool":"list_agents","arguments":{{}}}}"#);
        for text in [frame, call] {
            self.socket.feed(Message::text(text)).await.map_err(|e| e.to_string())?;
        }
        self.socket.flush().await.map_err(|e| e.to_string())?;
        while let Some(frame) = self.socket.next().await {
            match frame.map_err(|e| e.to_string())? {
                Message::Text(text) if text.contains("\"result\"") => return Ok(b"agents".to_vec()),
                _ => {}
            }
        }
        Err("the socket is closed".to_owned())
    }
}

#[derive(Clone, Copy)]
enum Question {
    Reply,
    GetAnswer,
    TakeUp,
    Conversation,
    Frame(&'static str),
    /// Wrong in its last character for "0", in its first for anything else.
    Token,
}

fn tool(id: u64, name: &str, arguments: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}"#).into()
}

/// An id like `real`, of nothing.
fn unknown(real: &str, dice: u64) -> String {
    let keep = real.len().saturating_sub(12);
    format!("{}{:012x}", &real[..keep], dice & 0xffff_ffff_ffff)
}

fn right_but(token: &str, last: bool) -> String {
    let at = if last { token.len() - 1 } else { 0 };
    token.char_indices().map(|(n, c)| if n == at { if c == 'x' { 'y' } else { 'x' } } else { c }).collect()
}

/// A field of the tool's result inside a JSON-RPC response.
fn field(payload: &[u8], name: &str) -> Result<String, String> {
    let response: serde_json::Value = serde_json::from_slice(payload).map_err(|e| format!("JSON: {e}"))?;
    let result = response["result"]["content"][0]["text"].as_str().unwrap_or_default();
    let result: serde_json::Value = serde_json::from_str(result).map_err(|e| format!("{e}: {response}"))?;
    result[name].as_str().map(str::to_owned).ok_or_else(|| format!("no {name} in {result}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_id_looks_like_the_real_one_and_a_wrong_token_differs_in_one_character() {
        let real = "01937000-0000-7000-8000-000000000001";
        let other = unknown(real, 0xabcd_ef01_2345_6789);
        assert_eq!((other.len(), &other[..24]), (real.len(), &real[..24]));
        assert_ne!(other, real);
        assert_eq!([right_but("abc", true), right_but("xbc", false)], ["abx", "ybc"]);
    }
}
