//! Langfuse and the collector, if they are configured: whether each can be reached, understands what we send, and takes our
//! keys. With the very client that the export has.

use std::time::Duration;

use serde_json::Value;

use super::Findings;
use super::network::cause;
use crate::cli::progress::timed;
use crate::config::{Config, Langfuse, Otlp};
use crate::outbound::{self, Verdict};
use crate::wire::control::ExportRow;

/// With something to send, and nothing taken for so many seconds, it stands still.
const STILL: u64 = 600;
const STANDS: &str = "look at what is said of it above and in the relay's log, which has the reason; nothing is lost";
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

/// How far the running relay's exports are.
pub(super) fn standing(findings: &mut Findings, exports: &[ExportRow]) {
    for ExportRow { sink, behind, quiet } in exports {
        match behind {
            0 => findings.ok("export", format!("export to {sink}: has followed the log to its end")),
            n if *quiet <= STILL => findings.ok("export", format!("export to {sink}: goes on, {n} positions of the log before it")),
            n => {
                let what =
                    format!("export to {sink}: stands still with {n} positions of the log before it; nothing was taken for {} minutes", quiet / 60);
                findings.warn("export", what, STANDS);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn an_export_that_stands_still_is_told_with_how_much_waits_and_since_when() {
        let of = |behind, quiet| {
            let mut findings = Findings::default();
            standing(&mut findings, &[ExportRow { sink: "langfuse".into(), behind, quiet }]);
            let found = findings.0.remove(0);
            (found.level, found.what)
        };
        let levels = [of(0, 9_000).0, of(9, 600).0, of(9, 601).0];
        assert_eq!(levels, [Level::Ok, Level::Ok, Level::Warning]);
        assert!(of(9, 3_700).1.contains("9 positions") && of(9, 3_700).1.ends_with("for 61 minutes"), "{}", of(9, 3_700).1);
    }
}
