//! The port: free, ours or taken; the names under which requests may come; and the address behind a proxy, tried.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Duration;

use super::{Findings, Running};
use crate::cli::client::http;
use crate::config::{Config, local_url};

const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn check(findings: &mut Findings, config: &Config, running: Option<&Running>) {
    port(findings, config, running);
    if !config.listen.ip().is_loopback() && config.public_url.is_none() && config.allowed_hosts.is_empty() {
        findings.warn(
            "hosts",
            "listens beyond this machine, but neither public_url nor allowed_hosts is set: requests that name another host than localhost or this address get 403",
            "set public_url to the address that bots and browsers use",
        );
    }
    if config.allowed_hosts.iter().any(|h| h == "*") {
        findings.warn("hosts", "allowed_hosts has \"*\": any web page may reach the relay through a visitor's browser", "list the hosts by name");
    }
    if config.ui.open && (config.public_url.is_some() || !config.listen.ip().is_loopback()) {
        let what = "[ui] open = true: whoever reaches this relay reads everything and acts as its owner";
        findings.warn("page", what, "remove it, and log in with `hermes-bridge ui-token`");
    }
    if let Some(public) = &config.public_url {
        let checked = crate::cli::runtime().map(|runtime| runtime.block_on(public_address(findings, public, running)));
        if let Err(why) = checked {
            findings.warn("public_url", format!("public_url could not be tried: {why}"), "try again");
        }
    }
}

fn port(findings: &mut Findings, config: &Config, running: Option<&Running>) {
    let listen = config.listen;
    if let Some(running) = running {
        return findings.ok("port", format!("port: the running relay listens on {}", running.listen));
    }
    if listen.port() == 0 {
        return findings.ok("port", "port: a free one at each start");
    }
    match TcpListener::bind(listen) {
        Ok(_) => findings.ok("port", format!("port: {listen} is free")),
        Err(e) if e.kind() == ErrorKind::AddrInUse => {
            let what = if is_a_relay(listen.port()) {
                format!("port: {listen} is taken by a relay that runs on another data directory")
            } else {
                format!("port: {listen} is taken by another program (`ss -ltnp` names it)")
            };
            findings.bad("port", what, "stop the other one, or choose another port with listen");
        }
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            findings.bad("port", format!("port: {listen}: {e}"), "ports below 1024 need rights: choose a higher one with listen");
        }
        Err(e) => findings.bad("port", format!("port: {listen}: {e}"), "choose an address of this machine with listen"),
    }
}

fn is_a_relay(port: u16) -> bool {
    let url = format!("http://127.0.0.1:{port}");
    crate::cli::runtime().is_ok_and(|runtime| runtime.block_on(is_healthy(&url, None)).is_ok())
}

/// Whether a relay answers there; otherwise what does.
async fn is_healthy(url: &str, host: Option<&str>) -> Result<(), String> {
    let client = http(url).timeout(PATIENCE).build().map_err(|e| e.to_string())?;
    let mut request = client.get(format!("{url}/health"));
    if let Some(host) = host {
        request = request.header("host", host);
    }
    let answer = request.send().await.map_err(|e| cause(&e))?;
    let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap_or_default());
    if status == 200 && text.trim() == r#"{"status":"ok"}"# {
        return Ok(());
    }
    let shown: String = text.chars().filter(|c| !c.is_control()).take(120).collect();
    Err(format!("it answers {status} {shown}"))
}

/// The innermost reason: the outer ones only say that a request failed.
pub(super) fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

async fn public_address(findings: &mut Findings, public: &str, running: Option<&Running>) {
    let host = public.split_once("://").map_or(public, |(_, rest)| rest).split('/').next().unwrap_or_default();
    let local = ["localhost", "127.0.0.1", "[::1]"].iter().any(|l| host.starts_with(l));
    if public.starts_with("http://") && !local {
        let what = format!("public_url = {public} is not encrypted: tokens and texts can be read on the way");
        findings.warn("public_url", what, "put a proxy with TLS before the relay (README, \"Running it for real\")");
    }
    let Some(running) = running else {
        return findings.ok("public_url", format!("public_url = {public}: tried when the relay runs"));
    };
    let here = running.listen.parse().map_or_else(|_| format!("http://{}", running.listen), local_url);
    if let Err(why) = is_healthy(&here, Some(host)).await {
        let what = format!("a request to {here} with the proxy's `Host: {host}` fails: {why}");
        findings.bad("public_url", what, "reload the relay (kill -HUP) so that it reads public_url, or add the host to allowed_hosts");
    }
    match is_healthy(public, None).await {
        Ok(()) => findings.ok("public_url", format!("public_url = {public}: the relay answers there")),
        Err(why) => {
            let remedy = "look at DNS, the proxy and its certificate; where bots reach it and this machine does not, this is no fault";
            findings.warn("public_url", format!("public_url = {public} does not lead to a relay from here: {why}"), remedy);
        }
    }
}
