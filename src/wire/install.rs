//! The installer as it travels: the adapter's own `install.py` with the plugin's files and the relay's address put into
//! its two marked lines. The binary carries exactly the adapter of its version.

use serde_json::{Map, Value};

macro_rules! adapter {
    ($($name:literal),* $(,)?) => { &[$(($name, include_str!(concat!("../../adapter/", $name)))),*] };
}

const SCRIPT: &str = include_str!("../../adapter/install.py");

/// Every file of the plugin; a test compares the list with the directory.
const FILES: &[(&str, &str)] = adapter![
    "__init__.py",
    "adapter.py",
    "bot_check.py",
    "calls.py",
    "config_check.py",
    "config_text.py",
    "connection.py",
    "courier.py",
    "desk.py",
    "frames.py",
    "hooks.py",
    "install.py",
    "late.py",
    "mcp_mode.py",
    "outbox.py",
    "plugin.yaml",
    "prompts.py",
    "sessions.py",
    "settings.py",
    "tools.py",
    "turns.py",
    "version.py",
    "wake_text.py",
];

/// The script for standard input of `python3 -`. `relay`: the relay's address, or empty for none.
#[must_use]
pub fn script(relay: &str) -> String {
    let files: Map<String, Value> = FILES.iter().map(|(name, text)| ((*name).to_owned(), Value::from(*text))).collect();
    let address = if relay.is_empty() { String::new() } else { format!("{}/bridge/connect", relay.replacen("http", "ws", 1)) };
    let line = |line: &str| match line {
        // JSON of texts alone is Python.
        "FILES: Dict[str, str] = {}" => format!("FILES: Dict[str, str] = {}", Value::Object(files.clone())),
        "RELAY_URL = \"\"" => format!("RELAY_URL = {}", Value::from(address.as_str())),
        other => other.to_owned(),
    };
    SCRIPT.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// The line that joins a bot, as a person types it on the bot's machine.
#[must_use]
pub fn join_line(relay: &str, token: &str) -> String {
    format!("curl -fsS {relay}/install.py | python3 - --token={token}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_carries_every_file_of_the_plugin() {
        let directory = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/adapter")).unwrap();
        let mut there: Vec<String> = directory.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        there.retain(|name| name.ends_with(".py") || name.ends_with(".yaml"));
        there.sort();
        assert_eq!(there, FILES.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
    }

    #[test]
    fn the_script_knows_its_relay_and_its_files() {
        let script = script("https://bridge.example.org");
        assert!(script.contains("\nRELAY_URL = \"wss://bridge.example.org/bridge/connect\"\n"));
        assert!(script.lines().any(|l| l.starts_with("FILES: Dict[str, str] = {\"__init__.py\":")));
    }

    #[test]
    fn adapter_and_relay_have_one_version() {
        let version = FILES.iter().find(|(name, _)| *name == "version.py").unwrap().1;
        assert!(version.contains(&format!("VERSION = \"{}\"", env!("CARGO_PKG_VERSION"))), "{version}");
    }
}
