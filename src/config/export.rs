//! The `[langfuse]` and `[otlp]` of bridge.toml: where finished exchanges are exported to, with which secrets, and what of
//! their texts. A section that is not there exports nothing, whatever the environment says.

use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use toml::Spanned;

use super::file::Source;
use super::{ConfigError, Env, Secret};

/// `[langfuse]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Langfuse {
    /// Without a slash at its end.
    pub base_url: String,
    pub public_key: String,
    pub secret_key: Secret,
    pub environment: String,
    pub release: Option<String>,
    pub tags: Vec<String>,
    pub export: Export,
}

/// `[otlp]`: any OpenTelemetry collector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Otlp {
    /// The whole address that traces are posted to.
    pub url: String,
    pub headers: Vec<(String, Secret)>,
    pub export: Export,
}

/// What both have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    pub capture: Capture,
    /// Regular expressions, each of which compiles.
    pub redact: Vec<String>,
    pub max_field_bytes: usize,
    /// Of 2^32 traces so many are exported.
    pub sample: u64,
    pub start: Start,
    pub shutdown: Duration,
    pub ca_file: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capture {
    Full,
    Metadata,
}

/// Where an export begins that has never run before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    Now,
    All,
}

/// A section with its own keys and those of `Export`; serde cannot refuse unknown keys in a flattened struct.
macro_rules! section {
    ($name:ident { $($key:ident: $type:ty,)* }) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $($key: $type,)*
            capture: Option<Capture>,
            redact: Option<Vec<Spanned<String>>>,
            max_field_bytes: Option<Spanned<u64>>,
            sample_rate: Option<Spanned<f64>>,
            start: Option<Start>,
            shutdown_ms: Option<Spanned<u64>>,
            ca_file: Option<PathBuf>,
        }

        impl $name {
            fn export(&self, source: &Source<'_>, base: &Path, capture: Capture) -> Result<Export, ConfigError> {
                let max = source.number(&self.max_field_bytes, "max_field_bytes", 100..=1_000_000, 65_536)?;
                let shutdown = source.number(&self.shutdown_ms, "shutdown_ms", 0..=60_000, 3_000)?;
                Ok(Export {
                    capture: self.capture.unwrap_or(capture),
                    redact: patterns(source, self.redact.as_deref().unwrap_or_default())?,
                    max_field_bytes: usize::try_from(max).unwrap_or(usize::MAX),
                    sample: sample(source, self.sample_rate.as_ref())?,
                    start: self.start.unwrap_or(Start::Now),
                    shutdown: Duration::from_millis(shutdown),
                    ca_file: self.ca_file.as_ref().map(|file| base.join(file)),
                })
            }
        }
    };
}

section!(RawLangfuse {
    base_url: Option<Spanned<String>>,
    public_key: Option<Spanned<String>>,
    secret_key: Option<Spanned<String>>,
    secret_key_file: Option<Spanned<PathBuf>>,
    environment: Option<Spanned<String>>,
    release: Option<String>,
    tags: Option<Vec<String>>,
});

section!(RawOtlp {
    endpoint: Option<Spanned<String>>,
    headers: Option<std::collections::BTreeMap<String, Spanned<String>>>,
});

const CLOUD: &str = "https://cloud.langfuse.com";

pub(super) fn langfuse(source: &Source<'_>, raw: Spanned<RawLangfuse>, base: &Path, env: Env<'_>) -> Result<Langfuse, ConfigError> {
    let section = raw.span();
    let raw = raw.into_inner();
    let missing = |key: &str, variable: &str| {
        let why = format!("is missing: write it into [langfuse] or set {variable}; Langfuse shows it under Settings, API Keys");
        source.at(section.clone(), key, "\"\"", &why)
    };
    let public = match &raw.public_key {
        Some(given) => given.get_ref().clone(),
        None => env("LANGFUSE_PUBLIC_KEY").ok_or_else(|| missing("public_key", "LANGFUSE_PUBLIC_KEY"))?,
    };
    let secret = match (&raw.secret_key, &raw.secret_key_file) {
        (Some(given), None) => given.get_ref().clone(),
        (None, Some(file)) => read_secret(source, file, base)?,
        (Some(given), Some(_)) => {
            return Err(source.at(given.span(), "secret_key", "[hidden]", "secret_key_file is given too; one of them is enough"));
        }
        (None, None) => env("LANGFUSE_SECRET_KEY").ok_or_else(|| missing("secret_key", "LANGFUSE_SECRET_KEY"))?,
    };
    let (public, secret) = (public.trim().to_owned(), secret.trim().to_owned());
    check_keys(&public, &secret).map_err(|(key, why)| source.at(section.clone(), key, "[hidden]", why))?;
    let base_url = match &raw.base_url {
        Some(given) => address(given.get_ref()).map_err(|why| source.at(given.span(), "base_url", &hide(given.get_ref()), why))?,
        None => match env("LANGFUSE_BASE_URL") {
            Some(given) => address(&given).map_err(|why| environment("LANGFUSE_BASE_URL", why))?,
            None => CLOUD.to_owned(),
        },
    };
    if let Some(name) = &raw.environment
        && !is_environment(name.get_ref())
    {
        let why = "1 to 40 of a-z 0-9 _ - are expected, not beginning with langfuse; Langfuse files anything else under \"default\"";
        return Err(source.value(name, "environment", why));
    }
    Ok(Langfuse {
        export: raw.export(source, base, Capture::Full)?,
        base_url,
        public_key: public,
        secret_key: Secret::new(secret),
        environment: raw.environment.map_or_else(|| "production".to_owned(), Spanned::into_inner),
        release: raw.release.filter(|r| !r.is_empty()),
        tags: raw.tags.unwrap_or_else(|| vec!["hermes-bridge".to_owned()]),
    })
}

pub(super) fn otlp(source: &Source<'_>, raw: Spanned<RawOtlp>, base: &Path, env: Env<'_>) -> Result<Otlp, ConfigError> {
    let section = raw.span();
    let raw = raw.into_inner();
    let url = match (&raw.endpoint, env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), env("OTEL_EXPORTER_OTLP_ENDPOINT")) {
        (Some(given), ..) => traces(&address(given.get_ref()).map_err(|why| source.at(given.span(), "endpoint", &hide(given.get_ref()), why))?),
        (None, Some(whole), _) => address(&whole).map_err(|why| environment("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", why))?,
        (None, None, Some(given)) => traces(&address(&given).map_err(|why| environment("OTEL_EXPORTER_OTLP_ENDPOINT", why))?),
        (None, None, None) => {
            return Err(source.at(section, "endpoint", "\"\"", "is missing: write it into [otlp] or set OTEL_EXPORTER_OTLP_ENDPOINT"));
        }
    };
    let mut headers = Vec::new();
    for (name, value) in raw.headers.iter().flatten() {
        let fits = is_header(name, value.get_ref());
        fits.then_some(()).ok_or_else(|| source.at(value.span(), &format!("headers.{name}"), "[hidden]", "this is no HTTP header"))?;
        headers.push((name.to_ascii_lowercase(), Secret::new(value.get_ref().clone())));
    }
    if raw.headers.is_none() {
        let given = env("OTEL_EXPORTER_OTLP_TRACES_HEADERS").or_else(|| env("OTEL_EXPORTER_OTLP_HEADERS")).unwrap_or_default();
        headers = listed_headers(&given).ok_or_else(|| environment("OTEL_EXPORTER_OTLP_HEADERS", "is not of the form name=value,name=value"))?;
    }
    Ok(Otlp { url, headers, export: raw.export(source, base, Capture::Metadata)? })
}

fn environment(name: &str, why: &str) -> ConfigError {
    ConfigError::Environment { name: name.to_owned(), why: why.to_owned() }
}

fn read_secret(source: &Source<'_>, file: &Spanned<PathBuf>, base: &Path) -> Result<String, ConfigError> {
    let path = base.join(file.get_ref());
    std::fs::read_to_string(&path).map_err(|e| source.value(file, "secret_key_file", &format!("cannot be read: {e}")))
}

/// What is wrong with a pair of keys, and with which of them.
fn check_keys(public: &str, secret: &str) -> Result<(), (&'static str, &'static str)> {
    if public.starts_with("sk-lf-") || secret.starts_with("pk-lf-") {
        return Err(("public_key", "the keys are swapped: the public one begins with pk-lf-, the secret one with sk-lf-"));
    }
    for (key, value) in [("public_key", public), ("secret_key", secret)] {
        if value.is_empty() || value.contains("...") || !value.bytes().all(|b| b.is_ascii_graphic()) {
            return Err((key, "this is no key: copy it from Langfuse's Settings, API Keys"));
        }
    }
    Ok(())
}

/// An http(s) address without what does not belong into it, and without a slash at its end.
fn address(text: &str) -> Result<String, &'static str> {
    let parsed = reqwest::Url::parse(text.trim()).map_err(|_| "an address like https://cloud.langfuse.com is expected")?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err("it begins with https:// (or http://) and a host");
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err("it has no user and no password: addresses are logged, secrets have keys of their own");
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err("it has no query and no fragment");
    }
    Ok(parsed.as_str().trim_end_matches('/').to_owned())
}

/// An address as an error may show it.
fn hide(text: &str) -> String {
    if text.contains('@') { "[hidden]".to_owned() } else { format!("{text:?}") }
}

/// The base address of a collector, or already the address of its traces.
fn traces(base: &str) -> String {
    if base.ends_with("/v1/traces") { base.to_owned() } else { format!("{base}/v1/traces") }
}

fn is_environment(name: &str) -> bool {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'));
    (1..=40).contains(&name.len()) && plain && !name.starts_with("langfuse")
}

fn is_header(name: &str, value: &str) -> bool {
    reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_ok() && reqwest::header::HeaderValue::from_str(value).is_ok()
}

/// `name=value,name=value`, values percent-encoded, as OpenTelemetry has it.
fn listed_headers(text: &str) -> Option<Vec<(String, Secret)>> {
    let mut all = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (name, value) = item.split_once('=')?;
        let (name, value) = (name.trim(), decoded(value.trim())?);
        is_header(name, &value).then_some(())?;
        all.push((name.to_ascii_lowercase(), Secret::new(value)));
    }
    Some(all)
}

fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

fn patterns(source: &Source<'_>, given: &[Spanned<String>]) -> Result<Vec<String>, ConfigError> {
    let compiled = |pattern: &Spanned<String>| match Regex::new(pattern.get_ref()) {
        Ok(_) => Ok(pattern.get_ref().clone()),
        Err(e) => Err(source.value(pattern, "redact", &format!("is no regular expression: {e}"))),
    };
    given.iter().map(compiled).collect()
}

fn sample(source: &Source<'_>, rate: Option<&Spanned<f64>>) -> Result<u64, ConfigError> {
    const ALL: u64 = 1 << 32;
    match rate {
        None => Ok(ALL),
        Some(rate) if (0.0..=1.0).contains(rate.get_ref()) => Ok((rate.get_ref() * ALL as f64) as u64),
        Some(rate) => Err(source.value(rate, "sample_rate", "a number from 0.0 to 1.0 is expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, file};
    use super::*;

    const KEYS: &str = "[langfuse]\npublic_key = \"pk-lf-1\"\nsecret_key = \"sk-lf-2\"\n";

    fn with(text: &str, env: Env<'_>) -> Result<Config, String> {
        file::parse(text, Some(Path::new("conf/bridge.toml")), env).map_err(|e| e.to_string())
    }

    fn parse(text: &str) -> Result<Config, String> {
        with(text, &|_| None)
    }

    #[test]
    fn the_environment_alone_exports_nothing() {
        let env = |name: &str| (name.starts_with("LANGFUSE") || name.starts_with("OTEL")).then(|| "https://pk-lf-1".to_owned());
        let config = with("", &env).unwrap();
        assert_eq!((config.langfuse, config.otlp), (None, None));
    }

    #[test]
    fn keys_come_from_the_file_a_file_of_their_own_or_the_environment() {
        let config = parse(KEYS).unwrap().langfuse.unwrap();
        assert_eq!((&*config.base_url, &*config.public_key, config.secret_key.reveal()), (CLOUD, "pk-lf-1", "sk-lf-2"));
        let env = |name: &str| {
            let found = [("LANGFUSE_PUBLIC_KEY", "pk-lf-e"), ("LANGFUSE_SECRET_KEY", "sk-lf-e"), ("LANGFUSE_BASE_URL", "http://lf:3000/")];
            found.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())
        };
        let config = with("[langfuse]\n", &env).unwrap().langfuse.unwrap();
        assert_eq!((&*config.base_url, config.secret_key.reveal()), ("http://lf:3000", "sk-lf-e"));
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("key"), "sk-lf-f\n").unwrap();
        let text = "[langfuse]\npublic_key = \"pk-lf-1\"\nsecret_key_file = \"key\"\n";
        let config = file::parse(text, Some(&dir.path().join("bridge.toml")), &|_| None).unwrap();
        assert_eq!(config.langfuse.unwrap().secret_key.reveal(), "sk-lf-f");
        assert!(parse("\n[langfuse]\n").unwrap_err().contains("line 2"));
    }

    #[test]
    fn wrong_keys_and_addresses_are_refused_without_repeating_secrets() {
        let swapped = parse("[langfuse]\npublic_key = \"sk-lf-secret\"\nsecret_key = \"pk-lf-2\"\n").unwrap_err();
        assert!(swapped.contains("swapped") && !swapped.contains("sk-lf-secret"), "{swapped}");
        assert!(parse("[langfuse]\npublic_key = \"pk-lf-...\"\nsecret_key = \"sk-lf-2\"\n").unwrap_err().contains("no key"));
        let userinfo = parse(&format!("{KEYS}base_url = \"https://me:hunter2@lf.example\"\n")).unwrap_err();
        assert!(userinfo.contains("no user") && !userinfo.contains("hunter2"), "{userinfo}");
        for bad in ["base_url = \"lf\"", "base_url = \"ftp://x\"", "environment = \"Prod EU!\"", "environment = \"langfuse-x\"", "redact = [\"(\"]"] {
            assert!(parse(&format!("{KEYS}{bad}\n")).unwrap_err().contains("line 4"), "{bad}");
        }
        assert!(parse(&format!("{KEYS}sample_rate = 1.5\n")).unwrap_err().contains("0.0 to 1.0"));
        assert!(!format!("{:?}", parse(KEYS).unwrap()).contains("sk-lf-2"));
    }

    #[test]
    fn a_collector_is_named_by_its_base_or_its_traces_and_by_opentelemetrys_variables() {
        let url = |text: &str| parse(text).unwrap().otlp.unwrap().url;
        assert_eq!(url("[otlp]\nendpoint = \"http://c:4318/\"\n"), "http://c:4318/v1/traces");
        assert_eq!(url("[otlp]\nendpoint = \"http://c/x/v1/traces\"\n"), "http://c/x/v1/traces");
        let env = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://c:4318".to_owned()),
            "OTEL_EXPORTER_OTLP_HEADERS" => Some("X-Key=a%20b, y=2".to_owned()),
            _ => None,
        };
        let otlp = with("[otlp]\n", &env).unwrap().otlp.unwrap();
        let headers: Vec<_> = otlp.headers.iter().map(|(n, v)| (n.as_str(), v.reveal())).collect();
        assert_eq!((&*otlp.url, headers, otlp.export.capture), ("http://c:4318/v1/traces", vec![("x-key", "a b"), ("y", "2")], Capture::Metadata));
        assert!(parse("[otlp]\n").unwrap_err().contains("OTEL_EXPORTER_OTLP_ENDPOINT"));
    }
}
