//! A bot that works by itself, as a good adapter does: it comes back when the connection is lost, takes no question twice,
//! and sends an answer again until the relay has said that it has it. It remembers all that happened to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

use super::relay::{Address, token};
use super::{Bot, Seeded, text};

#[derive(Default)]
pub struct Memory {
    /// Message of each wake, with request and attempt, in order.
    pub wakes: Vec<(String, String, u64)>,
    /// Request -> the reply that the relay has acknowledged, as it acknowledged it.
    pub acknowledged: HashMap<String, Value>,
    /// Requests for which it was woken after the relay had acknowledged its answer.
    pub needless: Vec<String>,
    pub connects: u32,
}

pub struct Worker {
    pub memory: Arc<Mutex<Memory>>,
    task: JoinHandle<()>,
}

impl Worker {
    /// Works as `name` with the answers of `answer` until it is dropped.
    pub fn start(address: Address, name: &str, answer: fn(&str) -> String) -> Self {
        Self::run(Life { address, name: name.to_owned(), instance: format!("the only {name}"), answer, flaps: None })
    }

    /// One of several processes of `name` whose connections are lost, each after a few frames that a dice chooses.
    pub fn flapping(address: Address, name: &str, answer: fn(&str) -> String, seed: u64) -> Self {
        Self::run(Life { address, name: name.to_owned(), instance: format!("{name} {seed}"), answer, flaps: Some(Seeded(seed)) })
    }

    fn run(life: Life) -> Self {
        let memory = Arc::<Mutex<Memory>>::default();
        Self { memory: memory.clone(), task: tokio::spawn(live(life, memory)) }
    }
}

struct Life {
    address: Address,
    name: String,
    instance: String,
    answer: fn(&str) -> String,
    flaps: Option<Seeded>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn live(mut life: Life, memory: Arc<Mutex<Memory>>) {
    let mut replies: HashMap<String, Value> = HashMap::new();
    loop {
        let url = life.address.lock().unwrap().clone();
        if let Ok(mut bot) = Bot::connect(&url, &life.name, &token(&life.name)).await {
            memory.lock().unwrap().connects += 1;
            let hello = json!({"type": "hello", "instance": life.instance, "features": ["restarting"]});
            let known = replies.iter().filter(|(id, _)| !memory.lock().unwrap().acknowledged.contains_key(*id));
            let first: Vec<Value> = [hello].into_iter().chain(known.map(|(_, call)| call.clone())).collect();
            let frames = life.flaps.as_mut().map_or(u64::MAX, |dice| 1 + dice.below(12));
            let _ = work(&mut bot, first, &memory, &mut replies, &life, frames).await;
        }
        // The time that a bot takes to come back.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn work(
    bot: &mut Bot,
    first: Vec<Value>,
    memory: &Mutex<Memory>,
    replies: &mut HashMap<String, Value>,
    Life { answer, instance, .. }: &Life,
    mut frames: u64,
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    for frame in first {
        bot.socket.send(Message::text(frame.to_string())).await?;
    }
    while let Some(message) = bot.socket.next().await {
        let Message::Text(frame) = message? else { continue };
        frames -= 1;
        if frames == 0 {
            return Ok(());
        }
        let frame: Value = serde_json::from_str(&frame).unwrap();
        if frame["type"] == "result" {
            let id = text(&frame, "id").split(' ').nth(1).unwrap().to_owned();
            memory.lock().unwrap().acknowledged.insert(id, frame["result"].clone());
        }
        if frame["type"] != "wake" {
            continue;
        }
        let id = text(&frame, "request_id").to_owned();
        let question = text(&frame, "message").to_owned();
        {
            let mut memory = memory.lock().unwrap();
            memory.wakes.push((question.clone(), id.clone(), frame["attempt"].as_u64().unwrap()));
            if memory.acknowledged.contains_key(&id) {
                memory.needless.push(id.clone());
            }
        }
        let received = json!({"type": "received", "request_id": id});
        bot.socket.send(Message::text(received.to_string())).await?;
        let arguments = json!({"request_id": id, "answer": answer(&question)});
        let call = json!({"type": "call", "id": format!("reply {id} by {instance}"), "tool": "reply", "arguments": arguments});
        replies.insert(id, call.clone());
        bot.socket.send(Message::text(call.to_string())).await?;
    }
    Ok(())
}
