//! A relay that somebody else runs: its address and its agents, from flags and a file of tokens.
//!
//! Never shows a token, not even in an error.

use super::server::{Agent, Endpoint};
use std::path::Path;

/// A relay that somebody else runs.
pub(super) async fn given(url: &str, tokens: &Path, pid: Option<u32>) -> Result<Endpoint, String> {
    let host = url
        .strip_prefix("http://")
        .ok_or_else(|| format!("--url {url}: must begin with http:// (measure beside the relay, not through a proxy)"))?
        .trim_end_matches('/');
    let mut found = tokio::net::lookup_host(host).await.map_err(|e| format!("--url {url}: {e}"))?;
    let addr = found.next().ok_or_else(|| format!("--url {url}: no address"))?;
    let text = std::fs::read_to_string(tokens).map_err(|e| format!("{}: {e}", tokens.display()))?;
    let (askers, bots) = agents_in(&text).map_err(|e| format!("{}: {e}", tokens.display()))?;
    Ok(Endpoint { addr, askers, bots, pid })
}

fn agents_in(text: &str) -> Result<(Vec<Agent>, Vec<Agent>), String> {
    let mut agents = Vec::new();
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mut words = line.split_whitespace().map(str::to_owned);
        match (words.next(), words.next(), words.next()) {
            (Some(name), Some(token), None) => agents.push(Agent { name, token }),
            _ => return Err(format!("line {}: want \"name token\"", n + 1)), // never shows the token
        }
    }
    if agents.len() < 2 {
        return Err("needs two agents at least: one asks, one answers".to_owned());
    }
    let bots = agents.split_off(agents.len() / 2);
    Ok((agents, bots))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_half_asks_and_the_second_half_answers() {
        let (askers, bots) = agents_in("a 1\n\nb 2\nc  3\n").unwrap();
        assert_eq!((askers.len(), bots.len()), (1, 2));
        assert_eq!((bots[1].name.as_str(), bots[1].token.as_str()), ("c", "3"));
    }

    #[test]
    fn a_bad_line_is_named_by_its_number_and_never_shown() {
        let error = agents_in("a 1\nb secret too-many").err().unwrap();
        assert!(error.contains("line 2") && !error.contains("secret"));
        assert!(agents_in("a 1").is_err());
    }
}
