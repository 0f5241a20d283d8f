//! The other side of an export: an HTTP server that plays Langfuse or a collector, calm or in trouble, and keeps what it was
//! sent and took.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What it does with a request.
#[derive(Clone)]
pub enum Answer {
    Take,
    /// Takes it and says this.
    TakeSaying(&'static str),
    /// Takes it and cuts the connection: the answer is lost.
    TakeAndCut,
    /// Takes nothing: status and headers.
    Refuse(u16, &'static str),
    /// Takes it unless this text is in it; else 400.
    RefuseIf(&'static str),
    Never,
}

#[derive(Clone)]
pub struct Request {
    pub at: Instant,
    pub line: String,
    pub headers: HashMap<String, String>,
    /// Of the body.
    pub bytes: usize,
    /// Attributes of what sent it.
    pub resource: Vec<Value>,
    pub spans: Vec<Value>,
    pub taken: bool,
}

struct State {
    next: VecDeque<Answer>,
    always: Answer,
    requests: Vec<Request>,
    connections: usize,
    version: &'static str,
}

pub struct Collector {
    port: u16,
    state: Arc<Mutex<State>>,
    listening: Option<JoinHandle<()>>,
}

impl Collector {
    pub async fn start() -> Self {
        let state = State { next: VecDeque::new(), always: Answer::Take, requests: Vec::new(), connections: 0, version: "4.16.0" };
        let mut collector = Self { port: 0, state: Arc::new(Mutex::new(state)), listening: None };
        collector.open().await;
        collector
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A `[langfuse]` that exports to it.
    pub fn langfuse(&self, more: &str) -> String {
        format!("[langfuse]\nbase_url = \"{}\"\npublic_key = \"pk-lf-1\"\nsecret_key = \"sk-lf-secret\"\n{more}\n", self.url())
    }

    /// Listens, on the same port as before.
    pub async fn open(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
        self.port = listener.local_addr().unwrap().port();
        let state = self.state.clone();
        self.listening = Some(tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                state.lock().unwrap().connections += 1;
                connections.spawn(serve(stream, state.clone()));
            }
        }));
    }

    /// Refuses connections from now on; those that are open are cut.
    pub async fn close(&mut self) {
        let listening = self.listening.take().unwrap();
        listening.abort();
        let _ = listening.await;
    }

    pub fn always(&self, answer: Answer) {
        self.state.lock().unwrap().always = answer;
    }

    /// What it says it is; one that ends in `-troubled` answers 503 when it is asked for the project.
    pub fn be(&self, version: &'static str) {
        self.state.lock().unwrap().version = version;
    }

    /// For the next request alone.
    pub fn once(&self, answer: Answer) {
        self.state.lock().unwrap().next.push_back(answer);
    }

    pub fn requests(&self) -> Vec<Request> {
        self.state.lock().unwrap().requests.clone()
    }

    pub fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    /// How many those are.
    pub fn count(&self) -> usize {
        self.state.lock().unwrap().requests.iter().filter(|r| r.taken).map(|r| r.spans.len()).sum()
    }

    /// All spans of requests that were taken, in their order.
    pub fn spans(&self) -> Vec<Value> {
        self.requests().into_iter().filter(|r| r.taken).flat_map(|r| r.spans).collect()
    }
}

/// A span's attribute.
pub fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let found = span["attributes"].as_array().unwrap().iter().find(|a| a["key"] == key);
    found.and_then(|a| a["value"].as_object()?.values().next()).unwrap_or(&Value::Null)
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut stream = BufReader::new(stream);
    while let Some((line, headers, body)) = read(&mut stream).await {
        if line.starts_with("GET ") {
            let (status, said) = told(&line, &headers, state.lock().unwrap().version);
            let _ = stream.write_all(format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n{said}", said.len()).as_bytes()).await;
            continue;
        }
        let bytes = body.len();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let resource = body["resourceSpans"][0]["resource"]["attributes"].as_array().cloned().unwrap_or_default();
        let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned().unwrap_or_default();
        let answer = {
            let mut state = state.lock().unwrap();
            let answer = state.next.pop_front().unwrap_or_else(|| state.always.clone());
            let answer = match answer {
                Answer::RefuseIf(text) if body.to_string().contains(text) => Answer::Refuse(400, ""),
                Answer::RefuseIf(_) => Answer::Take,
                other => other,
            };
            let taken = matches!(answer, Answer::Take | Answer::TakeSaying(_) | Answer::TakeAndCut);
            state.requests.push(Request { at: Instant::now(), line, headers, bytes, resource, spans, taken });
            answer
        };
        let (status, more, said) = match answer {
            Answer::Never => std::future::pending().await,
            Answer::TakeAndCut => return,
            Answer::Refuse(status, more) => (status, more, r#"{"message":"no"}"#),
            Answer::TakeSaying(said) => (200, "", said),
            Answer::Take | Answer::RefuseIf(_) => (200, "", r#"{"id":"a-job"}"#),
        };
        let head = format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{more}\r\n{said}", said.len());
        if stream.write_all(head.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Its version to everybody, its project to whoever has the keys of `Collector::langfuse`.
fn told(line: &str, headers: &HashMap<String, String>, version: &str) -> (u16, String) {
    let knows = headers.get("authorization").is_some_and(|given| given == "Basic cGstbGYtMTpzay1sZi1zZWNyZXQ=");
    match line.split(' ').nth(1).unwrap() {
        "/api/public/health" => (200, format!(r#"{{"status":"OK","version":"{version}"}}"#)),
        "/api/public/projects" if version.ends_with("-troubled") => (503, "{}".to_owned()),
        "/api/public/projects" if knows => (200, r#"{"data":[{"id":"p-1","name":"the project"}]}"#.to_owned()),
        "/api/public/projects" => (401, r#"{"message":"Invalid credentials"}"#.to_owned()),
        _ => (404, "{}".to_owned()),
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<(String, HashMap<String, String>, Vec<u8>)> {
    let (mut first, mut headers) = (String::new(), HashMap::new());
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        match line.split_once(": ") {
            _ if line.is_empty() => break,
            Some((name, value)) if !first.is_empty() => _ = headers.insert(name.to_ascii_lowercase(), value.to_owned()),
            _ => line.clone_into(&mut first),
        }
    }
    let length = headers.get("content-length").map_or(0, |l| l.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((first, headers, body))
}
