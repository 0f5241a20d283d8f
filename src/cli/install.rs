//! `install`: joins the Hermes bot of this machine to a relay. The work is the adapter's own installer, which the binary
//! carries; this runs it with Python, as `GET /install.py` has it run where there is no binary.

use std::io::Write;
use std::process::{Command, Stdio};

use clap::Args;

use super::Outcome;
use crate::wire::install;

#[derive(Args)]
#[command(after_help = "Examples:
  hermes-bridge install --token=TOKEN --relay-url=wss://bridge.example.org/bridge/connect
  hermes-bridge install --token-file=token.txt --relay-url=.. --data-dir=/opt/data --dry-run
  hermes-bridge install --check
  hermes-bridge install --uninstall

Needs python3. Where there is no hermes-bridge binary:
  curl -fsS https://bridge.example.org/install.py | python3 - --token=TOKEN")]
pub(crate) struct InstallArgs {
    /// The bot's token at the relay
    #[arg(long, value_name = "TOKEN", env = "HERMES_BRIDGE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file that holds the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<String>,
    /// Address of the relay, like wss://bridge.example.org/bridge/connect
    #[arg(long, value_name = "URL", env = "HERMES_BRIDGE_RELAY_URL")]
    relay_url: Option<String>,
    /// The bot's home, if it is not found by itself (HERMES_HOME, /opt/data, ~/.hermes)
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// native: the plugin's own tools; mcp: through mcp_servers
    #[arg(long, value_parser = ["native", "mcp"])]
    tools: Option<String>,
    /// Show what would change
    #[arg(long)]
    dry_run: bool,
    /// Take the bot out of the relay again
    #[arg(long)]
    uninstall: bool,
    /// Look whether the bot is joined and well
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: InstallArgs) -> Outcome {
    let mut python = Command::new("python3");
    python.arg("-");
    for (name, value) in [("--token-file", &args.token_file), ("--data-dir", &args.data_dir), ("--tools", &args.tools)] {
        if let Some(value) = value {
            python.arg(format!("{name}={value}"));
        }
    }
    for (name, set) in [("--dry-run", args.dry_run), ("--uninstall", args.uninstall), ("--check", args.check)] {
        if set {
            python.arg(name);
        }
    }
    // By the environment, not by arguments: those can be read by everybody on the machine.
    for (name, value) in [("HERMES_BRIDGE_TOKEN", &args.token), ("HERMES_BRIDGE_RELAY_URL", &args.relay_url)] {
        if let Some(value) = value {
            python.env(name, value);
        }
    }
    let mut child = python.stdin(Stdio::piped()).spawn().map_err(|e| format!("python3 cannot be started: {e}; Hermes brings one"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(install::script("").as_bytes()).map_err(|e| format!("python3 does not read its script: {e}"))?;
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
