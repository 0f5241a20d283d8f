//! WAYS OUT. Finished exchanges go to Langfuse and to any OpenTelemetry collector, each from its own cursor in the log. No
//! ask waits for it; without a section in the configuration nothing is started and nothing is sent.

mod batch;
mod content;
mod exporter;
mod genai;
mod langfuse;
mod post;
mod span;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Config, Langfuse, Otlp, Secret};
use crate::lasting::lasting;
use crate::store::Store;
use batch::{Dialect, Sink};
use content::Content;
use exporter::Exporter;
use span::Envelope;

pub use langfuse::is_old;
pub use post::{Verdict, answer, client, remedy};

/// Tokens of the configuration before that are hidden still; beyond it the oldest are forgotten.
const PAST_TOKENS: usize = 1_000;

/// The exports that run.
pub struct Exports {
    tasks: TaskTracker,
    stop: CancellationToken,
    cursors: Vec<(&'static str, String)>,
    /// What no text may carry out.
    tokens: watch::Sender<Vec<Secret>>,
}

/// Starts what the configuration names. Fails only for what can be known without asking the other side.
pub async fn start(config: &Config, store: &Arc<Store>) -> Result<Exports, String> {
    let tokens = watch::Sender::new(config.clear_tokens.clone());
    let mut exports = Exports { tasks: TaskTracker::new(), stop: CancellationToken::new(), cursors: Vec::new(), tokens };
    let langfuse = config
        .langfuse
        .as_ref()
        .map(|section| langfuse_sink(section, exports.tokens.subscribe()))
        .transpose()
        .map_err(|e| format!("[langfuse]: {e}"))?;
    let otlp = config.otlp.as_ref().map(|section| otlp_sink(section, exports.tokens.subscribe())).transpose().map_err(|e| format!("[otlp]: {e}"))?;
    for sink in [langfuse, otlp].into_iter().flatten() {
        let name = sink.name;
        exports.cursors.push((name, sink.key.clone()));
        let mut exporter = Exporter::new(sink, store.clone(), exports.stop.clone());
        exporter.find_place().await.map_err(|_| "the store ended before an export began".to_owned())?;
        exports.tasks.spawn(lasting(name, exports.stop.clone(), async move || exporter.run().await));
    }
    exports.tasks.close();
    Ok(exports)
}

impl Exports {
    /// Their names, and those of their cursors: what is beyond them is not exported yet.
    #[must_use]
    pub fn followers(&self) -> Vec<(&'static str, String)> {
        self.cursors.clone()
    }

    /// From now on these are hidden too. Those before them stay hidden: what is exported may be as old as they are. A restart
    /// knows only those of the configuration.
    pub fn hide(&self, tokens: Vec<Secret>) {
        self.tokens.send_modify(|hidden| {
            hidden.retain(|old| !tokens.contains(old));
            hidden.drain(..hidden.len().saturating_sub(PAST_TOKENS));
            hidden.extend(tokens);
        });
    }

    /// One last batch, within `shutdown_ms`; what is left goes out after the next start.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

fn langfuse_sink(section: &Langfuse, tokens: watch::Receiver<Vec<Secret>>) -> Result<Sink, String> {
    for (key, value, prefix) in [("public_key", section.public_key.as_str(), "pk-lf-"), ("secret_key", section.secret_key.reveal(), "sk-lf-")] {
        if !value.starts_with(prefix) {
            tracing::warn!("[langfuse] {key} does not begin with {prefix}, as Langfuse's own keys do");
        }
    }
    let url = format!("{}/api/public/otel/v1/traces", section.base_url);
    let client = post::client(&url, &section.export)?;
    // reqwest knows how to write it, and marks it as sensitive.
    let request = client.post(&url).basic_auth(&section.public_key, Some(section.secret_key.reveal())).build();
    let mut headers = request.map_err(|e| e.without_url().to_string())?.headers().clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(HeaderName::from_static("x-langfuse-ingestion-version"), HeaderValue::from_static("4"));
    headers.insert(HeaderName::from_static("x-langfuse-sdk-name"), HeaderValue::from_static(env!("CARGO_PKG_NAME")));
    headers.insert(HeaderName::from_static("x-langfuse-sdk-version"), HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
    let environment = ("langfuse.environment", section.environment.clone());
    let release = section.release.clone().map(|name| ("langfuse.release", name));
    Ok(Sink {
        name: "langfuse",
        key: key("langfuse", &[&section.base_url, &section.public_key]),
        client,
        url,
        headers,
        envelope: Envelope::new(std::iter::once(environment).chain(release).collect()),
        dialect: Dialect::Langfuse { base_url: section.base_url.clone(), tags: section.tags.clone() },
        content: Content::new(&section.export, tokens),
        export: section.export.clone(),
    })
}

/// What a collector says to an export of nothing, sent as the real ones are.
pub async fn probe(section: &Otlp) -> Result<Verdict, String> {
    let client = post::client(&section.url, &section.export)?;
    let nothing = br#"{"resourceSpans":[]}"#.to_vec();
    Ok(post::post(&client, &section.url, &otlp_headers(section)?, nothing, true).await.1)
}

fn otlp_headers(section: &Otlp) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in &section.headers {
        let bad = || format!("headers.{name}: this is no HTTP header");
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value.reveal()).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn otlp_sink(section: &Otlp, tokens: watch::Receiver<Vec<Secret>>) -> Result<Sink, String> {
    Ok(Sink {
        name: "otlp",
        key: key("otlp", &[&section.url]),
        client: post::client(&section.url, &section.export)?,
        url: section.url.clone(),
        headers: otlp_headers(section)?,
        envelope: Envelope::new(Vec::new()),
        dialect: Dialect::GenAi,
        content: Content::new(&section.export, tokens),
        export: section.export.clone(),
    })
}

/// The name of a cursor: its kind, of which there is one cursor, and what tells another destination. No secret can be read from it.
fn key(kind: &str, parts: &[&str]) -> String {
    let hash = Sha256::digest(parts.join("\n"));
    let hash: String = hash[..8].iter().map(|b| format!("{b:02x}")).collect();
    format!("{kind}:{hash}")
}
