//! config.yaml of the TypeScript relay becomes a new bridge.toml: agents with their tokens, the time limit, Langfuse. Owns
//! what is taken over and says what is not; never writes over a file.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::{Map, Value};

use super::exchange::agent_name;
use super::yaml;
use crate::cli::complain;
use crate::config::{self, Flags};

pub(super) fn import(path: &Path, out: &Path, dry_run: bool) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let read = yaml::parse(&text).and_then(|value| translate(&value)).map_err(|why| format!("{}: {why}. Nothing was written", path.display()))?;
    for note in &read.notes {
        complain(&format!("{}: {note}", path.display()));
    }
    if dry_run {
        println!("{}: {} agents; nothing was written", path.display(), read.agents);
        return Ok(());
    }
    // It holds tokens.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(out);
    let written = file.and_then(|mut file| file.write_all(read.toml.as_bytes()));
    written.map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => format!("{} is there already and stays as it is; --out names another", out.display()),
        _ => format!("{}: {e}", out.display()),
    })?;
    let flags = Flags { config: Some(out.to_owned()), ..Flags::default() };
    println!("{}: {} agents, with the tokens that they have", out.display(), read.agents);
    match config::load(&flags, &config::process_env) {
        Ok(_) => Ok(()),
        Err(e) => Err(format!("the new file needs a hand before a relay starts with it: {e}")),
    }
}

struct Translated {
    toml: String,
    agents: usize,
    notes: Vec<String>,
}

fn translate(value: &Value) -> Result<Translated, String> {
    let map = value.as_object().ok_or("a mapping with `agents:` is expected")?;
    let (mut toml, mut notes) =
        (String::from("# Taken over from config.yaml. Every other key, with its default: the bridge.toml of the release.\n"), Vec::new());
    // The TypeScript relay listened on every address.
    toml.push_str("listen = \"0.0.0.0:8787\"\n");
    notes.push("set public_url in the new file to the address that bots use: requests that name an unknown host get 403".to_owned());
    if let Some(ms) = map.get("ask_timeout_ms").filter(|v| !v.is_null()) {
        let ms = ms.as_u64().ok_or("ask_timeout_ms is a number of milliseconds")?;
        toml.push_str(&format!("ask_timeout_ms = {ms}\n"));
    }
    if let Some(langfuse) = map.get("langfuse").and_then(Value::as_object) {
        toml.push_str(&section(langfuse, &mut notes));
    }
    for (key, _) in map {
        match key.as_str() {
            "agents" | "ask_timeout_ms" | "langfuse" => {}
            "db" => notes.push("db is not needed any more; `hermes-bridge import` takes its history over".to_owned()),
            other => notes.push(format!("{other} is not known and was left out")),
        }
    }
    let agents = map.get("agents").and_then(Value::as_array).filter(|a| !a.is_empty()).ok_or("agents: is missing or empty")?;
    for (n, one) in agents.iter().enumerate() {
        let name = one["name"].as_str().ok_or_else(|| format!("agent {} has no name", n + 1))?;
        let ours = agent_name(name).ok_or_else(|| format!("agent {name:?} has no letter or digit in its name"))?;
        if ours.as_str() != name {
            notes.push(format!("agent {name:?} is called {ours} from now on: tell those who ask it"));
        }
        toml.push_str(&format!("\n[[agents]]\nname = {}\n", quoted(ours.as_str())));
        let token = match &one["token"] {
            Value::String(token) => token.clone(),
            Value::Number(token) => token.to_string(),
            _ => return Err(format!("agent {name} has no token")),
        };
        toml.push_str(&token_line(&token));
    }
    Ok(Translated { toml, agents: agents.len(), notes })
}

/// A token as it stands, or from the environment where the file said `${NAME}`.
fn token_line(token: &str) -> String {
    match variable(token) {
        Some(variable) => format!("token_env = {}\n", quoted(variable)),
        None => format!("token = {}\n", quoted(token)),
    }
}

fn variable(value: &str) -> Option<&str> {
    value.strip_prefix("${").and_then(|v| v.strip_suffix('}'))
}

/// JSON's escapes are TOML's, and nothing that TOML must have escaped is left out by them but DEL.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// What stands in the environment there is left to it here: `LANGFUSE_PUBLIC_KEY` and so on.
fn section(langfuse: &Map<String, Value>, notes: &mut Vec<String>) -> String {
    let mut toml = String::from("\n[langfuse]\n");
    for key in ["public_key", "secret_key", "base_url"] {
        let Some(value) = langfuse.get(key).and_then(Value::as_str) else { continue };
        match variable(value) {
            Some(variable) => notes.push(format!("langfuse.{key} came from {variable}: set LANGFUSE_{} to it", key.to_ascii_uppercase())),
            None => toml.push_str(&format!("{key} = {}\n", quoted(value))),
        }
    }
    toml
}
