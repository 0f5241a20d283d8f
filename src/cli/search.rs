//! `search` and `export`: the page's search from a terminal, asked of the running relay over HTTP. Owns the table; the
//! query language is the search's own.

use std::io::{IsTerminal, Write};

use clap::Args;
use serde_json::Value;

use super::client::{ask_running, running_at};
use super::progress::Meter;
use super::{ConfigArgs, Outcome};
use crate::config::local_url;
use crate::wire::control::{Answer, Command};

#[derive(Args)]
pub(crate) struct Wanted {
    #[command(flatten)]
    config: ConfigArgs,
    /// Address of the relay [default: where the one that runs on this machine listens]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The page's owner or viewer token; not needed on the relay's own machine
    #[arg(long, value_name = "TOKEN", env = "HERMES_BRIDGE_UI_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Words, "phrases", -word, from: to: agent: status: conversation: before: after: slower:5s
    query: Vec<String>,
    /// By relevance instead of newest first
    #[arg(long)]
    best: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:
  hermes-bridge search deploy status:timeout after:2d
  hermes-bridge search '\"exact phrase\" -without from:sre-bot' --json

Exit codes: 0 something was found, 1 nothing was, or the relay could not be reached.")]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    wanted: Wanted,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print what the API says
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:
  hermes-bridge export --format csv > all.csv
  hermes-bridge export status:failed after:7d > failed.ndjson")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    wanted: Wanted,
    /// csv, json or ndjson
    #[arg(long, value_name = "FORMAT", default_value = "ndjson", value_parser = ["csv", "json", "ndjson"])]
    format: String,
}

pub(crate) fn search(args: SearchArgs) -> Outcome {
    let path = format!("/ui/api/search?limit={}&", args.limit);
    let found: Value = super::runtime()?.block_on(async { get(&args.wanted, &path).await?.json().await.map_err(|e| e.to_string()) })?;
    let exchanges = found["exchanges"].as_array().map_or(&[][..], Vec::as_slice);
    if args.json {
        println!("{found}");
    } else {
        exchanges.iter().for_each(show);
        super::complain(&format!("{} of {} found", exchanges.len(), found["total"]));
    }
    Ok(u8::from(exchanges.is_empty()))
}

pub(crate) fn export(args: ExportArgs) -> Outcome {
    let path = format!("/ui/export.{}?", args.format);
    super::runtime()?.block_on(async {
        let mut answer = get(&args.wanted, &path).await?;
        let mut out = std::io::stdout().lock();
        // A terminal shows what comes.
        let (mut meter, mut bytes) = ((!out.is_terminal()).then(Meter::new), 0);
        while let Some(piece) = answer.chunk().await.map_err(|e| format!("the export broke off: {e}"))? {
            bytes += piece.len() as u64;
            if let Some(meter) = &mut meter {
                meter.show("exporting, bytes", bytes, 0);
            }
            // Whoever reads may have read enough.
            if out.write_all(&piece).is_err() {
                break;
            }
        }
        Ok(0)
    })
}

async fn get(wanted: &Wanted, path: &str) -> Result<reqwest::Response, String> {
    let config = wanted.config.load(None).map_err(|e| e.to_string());
    let given = wanted.token.as_ref().filter(|token| !token.is_empty());
    let token = match (given, &config) {
        (Some(token), _) => Some(token.clone()),
        (None, Ok(config)) => match ask_running(config, &Command::LendPage)? {
            Some(Answer::Token { token, .. }) => Some(token),
            _ => None,
        },
        (None, Err(_)) => None,
    };
    let base = match &wanted.url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => config.and_then(|config| Ok(running_at(&config)?.unwrap_or_else(|| local_url(config.listen))))?,
    };
    let client = super::client::http(&base).build().map_err(|e| e.to_string())?;
    let mut url = reqwest::Url::parse(&format!("{base}{path}")).map_err(|e| format!("{base}: {e}"))?;
    let sort = if wanted.best { "best" } else { "" };
    url.query_pairs_mut().append_pair("q", &wanted.query.join(" ")).append_pair("sort", sort);
    let request = client.get(url);
    let request = token.iter().fold(request, reqwest::RequestBuilder::bearer_auth);
    let answer = request.send().await.map_err(|e| format!("no relay answers at {base} ({e}); is it running? --url names another"))?;
    if answer.status().is_success() {
        return Ok(answer);
    }
    let (status, text) = (answer.status(), answer.text().await.unwrap_or_default());
    Err(format!("the relay says {status}: {}", text.trim()))
}

/// Three lines: who and how, what was asked, what came back.
fn show(exchange: &Value) {
    let text = |key: &str| exchange[key].as_str().unwrap_or_default();
    let at = exchange["started_at"].as_i64().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let at = at.map(|t| t.to_zoned_datetime(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default();
    println!("{at}  {} -> {}  {}  {}", plain(text("from"), 64), plain(text("to"), 64), text("status"), text("request_id"));
    println!("    ? {}", plain(text("message"), 160));
    let end = if text("answer").is_empty() { text("detail") } else { text("answer") };
    if !end.is_empty() {
        println!("    ! {}", plain(end, 160));
    }
}

/// One line of it, with nothing in it that a terminal would obey.
fn plain(text: &str, chars: usize) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut clean = line.chars().filter(|c| !c.is_control());
    let mut out: String = clean.by_ref().take(chars).collect();
    if clean.next().is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_terminal_is_told_nothing_but_text() {
        assert_eq!(super::plain("a\n b\u{1b}[31m\u{7} c", 20), "a b[31m c");
        assert_eq!(super::plain("数据库数据库", 3), "数据库…");
    }
}
