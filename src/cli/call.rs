//! Calls of tools over /mcp as any MCP client makes them, and as the best of them: a call outlives its connection and a
//! restart of the relay. An ask is taken up by the id of its stream's last event; what may be put twice is put again.

use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};

use super::client::{Identity, Relay};

const ASK: &str = "ask_agent";
/// The relay sends a comment every 15 s; silence for so long means that it is gone.
const SILENCE: Duration = Duration::from_secs(60);
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(5);

pub(crate) struct Caller<'a> {
    identity: &'a Identity,
    /// `None` after a loss: a token lent by a relay ends with it, and another may listen elsewhere.
    link: Option<(Relay, reqwest::Client)>,
    /// The relay has been there.
    met: bool,
    /// That an answer takes its time.
    said: bool,
    until: Instant,
}

/// Why there is no answer: the way to the relay broke, or nothing will mend it.
enum Broken {
    Lost(String),
    Fatal(String),
}
use Broken::{Fatal, Lost};

impl<'a> Caller<'a> {
    /// Whoever finds no relay at first hears so at once; later it is waited for, until then.
    pub(crate) fn new(identity: &'a Identity, until: Instant) -> Self {
        Self { identity, link: None, met: false, said: false, until }
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        let (mut stream, mut pause, mut told) = (None, FIRST_RETRY, false);
        let repeats = tool != ASK || arguments["request_key"].is_string();
        loop {
            let why = match self.attempt(tool, arguments, &mut stream).await {
                Ok(document) => return result(&document),
                Err(Fatal(why)) => return Err(why),
                Err(Lost(why)) if !self.met => return Err(format!("{why}. Is the relay running?")),
                Err(Lost(why)) => why,
            };
            let kept = stream.as_deref().map(of_request);
            if kept.is_none() && !repeats {
                return Err(format!("{why}. Whether it has the question is not known; with --key asking again is safe"));
            }
            if Instant::now() > self.until {
                return Err(format!("{why}. The answer, if there is one, is kept{}", kept.unwrap_or_default()));
            }
            self.link = None;
            if !std::mem::replace(&mut told, true) {
                super::complain(&format!("{why}; waiting for the relay{}", kept.unwrap_or_default()));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_RETRY);
        }
    }

    /// `stream`: the id of the last event, once there was one.
    async fn attempt(&mut self, tool: &str, arguments: &Value, stream: &mut Option<String>) -> Result<String, Broken> {
        let (relay, client) = match &self.link {
            Some(link) => link,
            None => self.link.insert(self.find()?),
        };
        let url = format!("{}/mcp", relay.url);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
        let request = match stream.as_deref() {
            Some(last) => client.get(url).header("last-event-id", last),
            None => client.post(url).header(CONTENT_TYPE, "application/json").body(body.to_string()),
        };
        let lost = |e: reqwest::Error| Lost(format!("{} does not answer: {}", relay.url, cause(&e)));
        let sent = request.bearer_auth(&relay.token).header(ACCEPT, "application/json, text/event-stream").send().await;
        let mut response = sent.inspect_err(|e| self.met |= !e.is_connect()).map_err(lost)?;
        let (status, mut text) = (response.status(), Vec::new());
        self.met |= status.is_success();
        while let Some(chunk) = response.chunk().await.map_err(lost)? {
            text.extend_from_slice(&chunk);
            let event = last(&text, "id:").filter(|_| tool == ASK);
            if last(&text, "data:").is_none()
                && let Some(id) = event.filter(|_| stream.is_some() && !std::mem::replace(&mut self.said, true))
            {
                super::complain(&format!("waiting for the answer{}", of_request(id)));
            }
            *stream = event.map(str::to_owned).or(stream.take());
        }
        if !status.is_success() {
            let said: Value = serde_json::from_slice(&text).unwrap_or_default();
            let why = format!("{} says {status}: {}", relay.url, said["error"].as_str().unwrap_or("no reason given"));
            // A proxy whose relay is not back yet, or a relay that is full.
            let passes = self.met && (status.is_server_error() || status.as_u16() == 429);
            return Err(if passes { Lost(why) } else { Fatal(why) });
        }
        let document = last(&text, "data:").map(str::to_owned).or_else(|| String::from_utf8(text).ok().filter(|text| text.starts_with('{')));
        document.ok_or_else(|| Lost(format!("{} ended the answer before its end", relay.url)))
    }

    fn find(&self) -> Result<(Relay, reqwest::Client), Broken> {
        let relay = self.identity.resolve().map_err(|why| if self.met { Lost(why) } else { Fatal(why) })?;
        let client = super::client::http(&relay.url).read_timeout(SILENCE).build().map_err(|e| Fatal(e.to_string()))?;
        Ok((relay, client))
    }
}

/// An event's id begins with its request's.
fn of_request(event: &str) -> String {
    format!(" (request {})", event.split('.').next().unwrap_or_default())
}

/// The last of an event stream's whole lines with this field that has a value.
fn last<'t>(text: &'t [u8], field: &str) -> Option<&'t str> {
    let whole = text.iter().rposition(|byte| *byte == b'\n').and_then(|end| text.get(..end))?;
    let lines = std::str::from_utf8(whole).ok()?.lines();
    lines.filter_map(|line| line.strip_prefix(field)).map(str::trim).rfind(|value| !value.is_empty())
}

/// What the tool said, out of the JSON-RPC answer.
fn result(document: &str) -> Result<Value, String> {
    let answer: Value = serde_json::from_str(document).map_err(|e| format!("the relay answered what is no JSON: {e}"))?;
    if let Some(error) = answer["error"]["message"].as_str() {
        return Err(error.to_owned());
    }
    let content = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    if answer["result"]["isError"] == true {
        return Err(content.to_owned());
    }
    serde_json::from_str(content).map_err(|e| format!("the relay answered what is no result: {e}"))
}

/// The innermost reason, without the address.
fn cause(error: &reqwest::Error) -> String {
    let mut source: &dyn std::error::Error = error;
    while let Some(inner) = source.source() {
        source = inner;
    }
    source.to_string()
}
