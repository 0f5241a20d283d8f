//! Langfuse, if it is configured: whether it can be reached, understands what we send, and takes our keys. With the very
//! client that the export has.

use std::time::Duration;

use serde_json::Value;

use super::Findings;
use super::network::cause;
use crate::config::{Config, Langfuse};
use crate::outbound;

const PATIENCE: Duration = Duration::from_secs(10);
const WAIT: &str = "look at base_url and at the network; finished exchanges wait in the log until it is back, none is lost";

pub(super) fn check(findings: &mut Findings, config: &Config) {
    let Some(section) = &config.langfuse else { return };
    let looked = crate::cli::runtime().and_then(|runtime| runtime.block_on(look(findings, section)));
    if let Err(why) = looked {
        let what = format!("langfuse {} cannot be reached: {why}", section.base_url);
        match outbound::remedy(&why) {
            Some(remedy) => findings.bad("langfuse", what, remedy),
            None => findings.warn("langfuse", what, WAIT),
        }
    }
}

async fn look(findings: &mut Findings, section: &Langfuse) -> Result<(), String> {
    let url = &section.base_url;
    let client = outbound::client(url, &section.export)?;
    let health: Value = json(client.get(format!("{url}/api/public/health"))).await?;
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
        Err(why) => findings.bad(
            "langfuse",
            format!("langfuse {url} ({version}) does not take the keys: {why}"),
            "copy public_key and secret_key from the project's settings",
        ),
    }
    Ok(())
}

async fn json(request: reqwest::RequestBuilder) -> Result<Value, String> {
    let answer = request.timeout(PATIENCE).send().await.map_err(|e| cause(&e))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(format!("it answers {status}"));
    }
    answer.json().await.map_err(|e| cause(&e))
}
