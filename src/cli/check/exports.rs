//! Langfuse and the collector, if they are configured: whether each can be reached, understands what we send, and takes our
//! keys. With the very client that the export has.

use std::time::Duration;

use serde_json::Value;

use super::Findings;
use super::network::cause;
use crate::cli::progress::timed;
use crate::config::{Config, Langfuse, Otlp};
use crate::outbound::{self, Verdict};

const PATIENCE: Duration = Duration::from_secs(10);
const WAIT: &str = "look at base_url and at the network; finished exchanges wait in the log until it is back, none is lost";
const WAIT_OTLP: &str =
    "look at endpoint (OTLP over HTTP, usually port 4318) and at the network; finished exchanges wait in the log until it is back, none is lost";

pub(super) fn check(findings: &mut Findings, config: &Config) {
    if let Some(section) = &config.langfuse {
        langfuse(findings, section);
    }
    if let Some(section) = &config.otlp {
        otlp(findings, section);
    }
}

fn langfuse(findings: &mut Findings, section: &Langfuse) {
    let looked = timed("asking langfuse, seconds so far", || crate::cli::runtime()?.block_on(look(findings, section)));
    if let Err(why) = looked {
        let what = format!("langfuse {} cannot be reached: {why}", section.base_url);
        match outbound::remedy(&why) {
            Some(remedy) => findings.bad("langfuse", what, remedy),
            None => findings.warn("langfuse", what, WAIT),
        }
    }
}

/// An export of nothing: taken by whoever would take a real one.
fn otlp(findings: &mut Findings, section: &Otlp) {
    let (topic, to) = ("otlp", format!("collector {}", section.url));
    let probe = async {
        let probed = tokio::time::timeout(PATIENCE, outbound::probe(section)).await;
        probed.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
    };
    match timed("asking the collector, seconds so far", || crate::cli::runtime()?.block_on(probe)) {
        Ok(Verdict::Taken { .. }) => findings.ok(topic, format!("{to}: takes what is exported")),
        Ok(Verdict::Misconfigured { why, remedy }) => findings.bad(topic, format!("{to} {why}"), remedy),
        Ok(Verdict::Refused(status)) => {
            findings.bad(topic, format!("{to} answers {status} to an export of nothing"), "name an address that takes OTLP over HTTP as JSON");
        }
        Ok(Verdict::Later { why, .. }) | Err(why) => findings.warn(topic, format!("{to} takes nothing at the moment: {why}"), WAIT_OTLP),
    }
}

async fn look(findings: &mut Findings, section: &Langfuse) -> Result<(), String> {
    let url = &section.base_url;
    let client = outbound::client(url, &section.export)?;
    let health: Value = json(client.get(format!("{url}/api/public/health"))).await.map_err(|no| no.why)?;
    let version = health["version"].as_str().unwrap_or("of an unknown version").to_owned();
    if outbound::is_old(&version) {
        let what = format!("langfuse {url} is {version}: it needs 3.81 or later to understand what is sent");
        findings.bad("langfuse", what, "update Langfuse, or remove [langfuse]");
    }
    let keys = client.get(format!("{url}/api/public/projects")).basic_auth(&section.public_key, Some(section.secret_key.reveal()));
    match json(keys).await {
        Ok(projects) => {
            let name = projects["data"][0]["name"].as_str().unwrap_or("without a name").to_owned();
            findings.ok("langfuse", format!("langfuse {url}: version {version}, project {name}"));
        }
        Err(No { why, refused: true }) => findings.bad(
            "langfuse",
            format!("langfuse {url} ({version}) does not take the keys: {why}"),
            "copy public_key and secret_key from the project's settings",
        ),
        Err(No { why, .. }) => findings.warn("langfuse", format!("langfuse {url} ({version}) does not say whether it takes the keys: {why}"), WAIT),
    }
    Ok(())
}

/// Why there is no answer, and whether it is ours to mend.
struct No {
    why: String,
    refused: bool,
}

async fn json(request: reqwest::RequestBuilder) -> Result<Value, No> {
    let for_now = |why| No { why, refused: false };
    let answer = request.timeout(PATIENCE).send().await.map_err(|e| for_now(cause(&e)))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(No { why: format!("it answers {status}"), refused: matches!(status.as_u16(), 401 | 403) });
    }
    serde_json::from_slice(&outbound::answer(answer).await).map_err(|e| for_now(format!("what it says is no JSON: {e}")))
}
