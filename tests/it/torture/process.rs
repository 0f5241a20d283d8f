//! One process of a bot after the other: each has one or two connections that come and go, calls under way that are sent
//! again over whichever connection is there, and questions that it has. A process that dies takes its questions with it;
//! what it had asked is asked again by the next, under the same number.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use super::ledger::Ledger;
use super::{asks, turns};
use crate::rig::{Address, Bot, Caller, Seeded, text, token};

/// A call that has no result yet.
pub struct Call {
    frame: Value,
    /// The question that it asks; such a call outlives its process.
    question: Option<u64>,
    done: Option<oneshot::Sender<Value>>,
}

pub struct Process {
    pub name: String,
    pub ledger: Arc<Ledger>,
    pub mcp: Caller,
    address: Address,
    instance: String,
    dice: Mutex<Seeded>,
    calls: Mutex<HashMap<String, Call>>,
    /// Questions that it has, and those of which the relay is known to know that.
    has: Mutex<HashSet<String>>,
    sure: Mutex<HashSet<String>>,
    lines: Mutex<HashMap<u64, mpsc::UnboundedSender<Value>>>,
    work: Mutex<JoinSet<()>>,
}

impl Process {
    pub fn below(&self, n: u64) -> u64 {
        self.dice.lock().unwrap().below(n)
    }

    pub async fn pause(&self, most_ms: u64) {
        tokio::time::sleep(Duration::from_millis(self.below(most_ms.max(1)))).await;
    }

    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Sends over one of the connections, if there is one.
    pub fn say(&self, frame: &Value) {
        if let Some(line) = self.lines.lock().unwrap().values().next() {
            let _ = line.send(frame.clone());
        }
    }

    /// Calls a tool over the WebSocket, again after each lost connection, until there is a result.
    pub async fn call(&self, id: &str, tool: &str, arguments: Value, question: Option<u64>) -> Value {
        let frame = json!({"type": "call", "id": id, "tool": tool, "arguments": arguments});
        let (done, result) = oneshot::channel();
        if let Some(number) = question {
            self.ledger.calls(number);
        }
        self.calls.lock().unwrap().insert(id.to_owned(), Call { frame: frame.clone(), question, done: Some(done) });
        self.say(&frame);
        result.await.expect("a call is kept until its result is there")
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.work.lock().unwrap().spawn(work);
    }

    fn result(&self, id: &str, result: Value) {
        let Some(call) = self.calls.lock().unwrap().remove(id) else {
            // It went over both connections, and this is the result of the second.
            return self.ledger.told_again(&result);
        };
        if let Some(question) = call.question {
            self.ledger.told(question, &result);
        }
        if let Some(done) = call.done {
            let _ = done.send(result);
        }
    }
}

/// What a process does holds it: it ends when this is dropped, by the test too.
struct Alive(Arc<Process>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.work.lock().unwrap().abort_all();
    }
}

/// Process after process of this name, until the test ends it.
pub async fn live(name: String, address: Address, ledger: Arc<Ledger>, mut dice: Seeded) {
    let mut inherited = HashMap::new();
    for generation in 0.. {
        let process = Arc::new(Process {
            mcp: Caller::new(address.clone(), &token(&name)),
            instance: format!("{name}/{generation}"),
            dice: Mutex::new(Seeded(dice.below(u64::MAX) + 1)),
            name: name.clone(),
            ledger: ledger.clone(),
            address: address.clone(),
            calls: Mutex::new(std::mem::take(&mut inherited)),
            has: Mutex::default(),
            sure: Mutex::default(),
            lines: Mutex::default(),
            work: Mutex::default(),
        });
        let _alive = Alive(process.clone());
        for number in 0..=u64::from(dice.below(4) == 0) {
            process.spawn(line(process.clone(), number));
        }
        for _ in 0..3 {
            process.spawn(asks::ask_on(process.clone(), ledger.asking()));
        }
        let mut left = 1000 + dice.below(12_000);
        while left > 0 || ledger.winds_down() {
            let step = left.clamp(1, 100);
            tokio::time::sleep(Duration::from_millis(step)).await;
            left = left.saturating_sub(step);
            while let Some(ended) = process.work.lock().unwrap().try_join_next() {
                ended.unwrap_or_else(|e| ledger.fault(format!("the test itself: {e}")));
            }
        }
        ledger.count("processes that died");
        // Everything of it ends at once; sockets without a goodbye.
        let mut work = std::mem::take(&mut *process.work.lock().unwrap());
        work.shutdown().await;
        let calls = std::mem::take(&mut *process.calls.lock().unwrap());
        let outlive = calls.into_iter().filter(|(_, call)| call.question.is_some() && dice.below(3) > 0);
        inherited = outlive.map(|(id, call)| (id, Call { done: None, ..call })).collect();
        tokio::time::sleep(Duration::from_millis(dice.below(2500))).await;
    }
}

/// A connection that comes back.
async fn line(process: Arc<Process>, number: u64) {
    loop {
        let url = process.address.lock().unwrap().clone();
        if let Ok(mut bot) = Bot::connect(&url, &process.name, &token(&process.name)).await {
            let _ = converse(&process, number, &mut bot).await;
            process.lines.lock().unwrap().remove(&number);
            if process.below(4) == 0 {
                let _ = bot.socket.close(None).await;
            }
        }
        process.pause(300).await;
    }
}

async fn converse(process: &Arc<Process>, number: u64, bot: &mut Bot) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    let opened = process.ledger.now();
    let hello = json!({"type": "hello", "adapter": "torture", "instance": process.instance, "features": ["answer", "cancelled", "restarting"]});
    bot.socket.send(Message::text(hello.to_string())).await?;
    let again: Vec<Value> = process.calls.lock().unwrap().values().map(|call| call.frame.clone()).collect();
    let (line, mut outgoing) = mpsc::unbounded_channel();
    again.into_iter().for_each(|frame| drop(line.send(frame)));
    process.lines.lock().unwrap().insert(number, line);
    // What was said to be here on this connection, and how much of that when each ask was sent: its result, whatever it
    // is, comes after that is on disk.
    let (mut received, mut marks) = (Vec::<String>::new(), HashMap::<String, usize>::new());
    let mut frames = if process.below(3) == 0 { process.below(60) } else { u64::MAX };
    while frames > 0 {
        frames -= 1;
        let frame = tokio::select! {
            Some(frame) = outgoing.recv() => {
                if frame["tool"] == "ask_agent" {
                    marks.insert(text(&frame, "id").to_owned(), received.len());
                }
                bot.socket.send(Message::text(frame.to_string())).await?;
                continue;
            }
            frame = bot.frame() => match frame { Some(frame) => frame, None => return Ok(()) },
        };
        match text(&frame, "type") {
            "wake" => {
                process.ledger.woken(&process.name, &process.instance, opened, &frame);
                let request = text(&frame, "request_id").to_owned();
                if process.sure.lock().unwrap().contains(&request) {
                    process.ledger.fault(format!("{} was woken again for what it had: {frame}", process.instance));
                }
                if process.below(20) > 0 {
                    bot.socket.send(Message::text(json!({"type": "received", "request_id": request}).to_string())).await?;
                    received.push(request.clone());
                }
                if process.has.lock().unwrap().insert(request) {
                    process.spawn(turns::turn(process.clone(), frame));
                }
            }
            "result" => {
                let (id, result) = (text(&frame, "id").to_owned(), frame["result"].clone());
                if let Some(mark) = marks.remove(&id) {
                    process.sure.lock().unwrap().extend(received[..mark].iter().cloned());
                }
                process.result(&id, result);
            }
            "answer" => process.ledger.handed(&process.name, &frame),
            _ => {}
        }
    }
    Ok(())
}
