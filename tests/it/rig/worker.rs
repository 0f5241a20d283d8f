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
use super::{Bot, text};

#[derive(Default)]
pub struct Memory {
    /// Message of each wake, with request and attempt, in order.
    pub wakes: Vec<(String, String, u64)>,
    /// Request -> the reply that the relay has acknowledged, as it acknowledged it.
    pub acknowledged: HashMap<String, Value>,
    pub connects: u32,
}

pub struct Worker {
    pub memory: Arc<Mutex<Memory>>,
    task: JoinHandle<()>,
}

impl Worker {
    /// Works as `name` with the answers of `answer` until it is dropped.
    pub fn start(address: Address, name: &str, answer: fn(&str) -> String) -> Self {
        let memory = Arc::<Mutex<Memory>>::default();
        let life = live(address, name.to_owned(), memory.clone(), answer);
        Self { memory, task: tokio::spawn(life) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn live(address: Address, name: String, memory: Arc<Mutex<Memory>>, answer: fn(&str) -> String) {
    let mut replies: HashMap<String, Value> = HashMap::new();
    loop {
        let url = address.lock().unwrap().clone();
        if let Ok(mut bot) = Bot::connect(&url, &name, &token(&name)).await {
            memory.lock().unwrap().connects += 1;
            let hello = json!({"type": "hello", "instance": format!("the only {name}"), "features": ["restarting"]});
            let known = replies.iter().filter(|(id, _)| !memory.lock().unwrap().acknowledged.contains_key(*id));
            let first: Vec<Value> = [hello].into_iter().chain(known.map(|(_, call)| call.clone())).collect();
            let _ = work(&mut bot, first, &memory, &mut replies, answer).await;
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
    answer: fn(&str) -> String,
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    for frame in first {
        bot.socket.send(Message::text(frame.to_string())).await?;
    }
    while let Some(message) = bot.socket.next().await {
        let Message::Text(frame) = message? else { continue };
        let frame: Value = serde_json::from_str(&frame).unwrap();
        if frame["type"] == "result" {
            let id = text(&frame, "id").trim_start_matches("reply ").to_owned();
            memory.lock().unwrap().acknowledged.insert(id, frame["result"].clone());
        }
        if frame["type"] != "wake" {
            continue;
        }
        let id = text(&frame, "request_id").to_owned();
        let question = text(&frame, "message").to_owned();
        memory.lock().unwrap().wakes.push((question.clone(), id.clone(), frame["attempt"].as_u64().unwrap()));
        let received = json!({"type": "received", "request_id": id});
        bot.socket.send(Message::text(received.to_string())).await?;
        let arguments = json!({"request_id": id, "answer": answer(&question)});
        let call = json!({"type": "call", "id": format!("reply {id}"), "tool": "reply", "arguments": arguments});
        replies.insert(id, call.clone());
        bot.socket.send(Message::text(call.to_string())).await?;
    }
    Ok(())
}
