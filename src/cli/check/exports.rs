//! Langfuse, if it is configured: whether it can be reached, understands what we send, and takes our keys.

use std::time::Duration;

use serde_json::Value;

use super::Findings;
use super::network::cause;
use crate::config::{Config, Langfuse};

const PATIENCE: Duration = Duration::from_secs(5);
/// Earlier ones write our ids in another form.
const UNDERSTANDS: (u64, u64) = (3, 81);

pub(super) fn check(findings: &mut Findings, config: &Config) {
    let Some(section) = &config.langfuse else { return };
    let looked = crate::cli::runtime().and_then(|runtime| runtime.block_on(look(findings, section)));
    if let Err(why) = looked {
        let remedy = "look at base_url and at the network; finished exchanges wait in the log until it is back, none is lost";
        findings.warn("langfuse", format!("langfuse {} cannot be reached: {why}", section.base_url), remedy);
    }
}

async fn look(findings: &mut Findings, section: &Langfuse) -> Result<(), String> {
    let url = &section.base_url;
    let mut builder = crate::cli::client::http(url).timeout(PATIENCE);
    if let Some(file) = &section.export.ca_file {
        let pem = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
        for certificate in reqwest::Certificate::from_pem_bundle(&pem).map_err(|e| format!("{}: {e}", file.display()))? {
            builder = builder.add_root_certificate(certificate);
        }
    }
    let client = builder.build().map_err(|e| e.to_string())?;
    let health: Value = json(client.get(format!("{url}/api/public/health"))).await?;
    let version = health["version"].as_str().unwrap_or("of an unknown version").to_owned();
    let mut numbers = version.split('.').map(|n| n.parse::<u64>().unwrap_or(0));
    let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if number < UNDERSTANDS {
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
    let answer = request.send().await.map_err(|e| cause(&e))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(format!("it answers {status}"));
    }
    answer.json().await.map_err(|e| cause(&e))
}
