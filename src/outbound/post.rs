//! One request to the other side and what its answer means: taken, come back later, refused as it is, or a mistake of the
//! configuration. Never follows a redirect: a POST would become a GET.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Certificate, Client, Response, Url, redirect};

use crate::config::Export;

/// Long: one that gives up early leaves open whether the batch was taken, and sends it again.
const TIMEOUT: Duration = Duration::from_secs(30);
/// As far as an answer is read.
const MAX_ANSWER: usize = 64 << 10;
const LONGEST_WISH: Duration = Duration::from_secs(300);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// `rejected`: spans that the other side says it did not take, for good.
    Taken { rejected: u64 },
    /// Nothing is wrong with the batch; not before `wish` if the other side named a time.
    Later { why: String, wish: Option<Duration> },
    /// This batch as it is will never be taken.
    Refused(u16),
    /// No batch will be taken before somebody mends something.
    Misconfigured { why: String, remedy: &'static str },
}

/// rustls says so of every certificate that it does not take.
const UNTRUSTED: &str = "invalid peer certificate";

/// What to do about a server whose certificate is not taken; `None` for every other reason that there was no answer.
#[must_use]
pub fn remedy(why: &str) -> Option<&'static str> {
    let found = why.contains(UNTRUSTED);
    found.then_some(
        "name the certificate of the authority that signed it with ca_file; if that is known here, look at its dates and at the host's name",
    )
}

/// A client for one address, which trusts what `ca_file` names beside the system's authorities.
pub fn client(url: &str, export: &Export) -> Result<Client, String> {
    let local = Url::parse(url).is_ok_and(|url| matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")));
    let mut builder = Client::builder().redirect(redirect::Policy::none()).timeout(TIMEOUT).pool_max_idle_per_host(1);
    if local {
        builder = builder.no_proxy();
    }
    if let Some(file) = &export.ca_file {
        let text = std::fs::read(file).map_err(|e| format!("ca_file {} cannot be read: {e}", file.display()))?;
        let found = Certificate::from_pem_bundle(&text).unwrap_or_default();
        if found.is_empty() {
            return Err(format!("ca_file {} holds no certificate in PEM form", file.display()));
        }
        builder = builder.tls_certs_merge(found);
    } else if url.starts_with("http://") {
        builder = builder.tls_certs_only(std::iter::empty());
    }
    builder.build().map_err(|e| format!("no HTTPS to {url}: {}; install CA certificates, or name some with ca_file", e.without_url()))
}

/// Sends one batch. With the status of the answer, 0 if there was none.
pub(super) async fn post(client: &Client, url: &str, headers: &HeaderMap, body: Vec<u8>, reads_partial: bool) -> (u16, Verdict) {
    let sent = client.post(url).headers(headers.clone()).body(body).send().await;
    let response = match sent {
        Ok(response) => response,
        Err(e) => return (0, unanswered(no_answer(e))),
    };
    let status = response.status().as_u16();
    let wish = retry_after(response.headers());
    // Read so that the connection can be used again; the status alone decides.
    let answer = answer(response).await;
    let rejected = if reads_partial { rejected(&answer) } else { 0 };
    (status, verdict(status, wish, rejected))
}

/// What it says, as far as anybody reads it.
pub async fn answer(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = MAX_ANSWER - body.len();
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if body.len() == MAX_ANSWER {
            break;
        }
    }
    body
}

fn unanswered(why: String) -> Verdict {
    match remedy(&why) {
        Some(remedy) => Verdict::Misconfigured { why, remedy },
        None => Verdict::Later { why, wish: None },
    }
}

fn no_answer(e: reqwest::Error) -> String {
    let e = e.without_url();
    let mut text = e.to_string();
    let mut source = std::error::Error::source(&e);
    while let Some(deeper) = source {
        text = format!("{text}: {deeper}");
        source = deeper.source();
    }
    text
}

fn verdict(status: u16, wish: Option<Duration>, rejected: u64) -> Verdict {
    let misconfigured = |remedy| Verdict::Misconfigured { why: format!("answers {status}"), remedy };
    match status {
        200..=299 => Verdict::Taken { rejected },
        401 | 403 => misconfigured("look at the keys (or headers) and that they belong to this address's project"),
        400 | 413 | 422 => Verdict::Refused(status),
        404 | 405 => misconfigured("look at the address; Langfuse must be 3.81 or newer"),
        300..=399 => misconfigured("it redirects, and a redirect is not followed: name the final address"),
        408 | 425 | 429 | 500..=599 => Verdict::Later { why: format!("answers {status}"), wish },
        _ => misconfigured("no server of this kind answers so: look at the address, and at what stands between (a proxy, a login)"),
    }
}

/// How long to wait after failing `failures` times in a row; `dice` is random.
pub(super) fn pause(failures: u32, dice: u32, wish: Option<Duration>) -> Duration {
    let full = LONGEST_PAUSE.min(Duration::from_secs(1) * 2_u32.saturating_pow(failures.saturating_sub(1).min(10)));
    let spread = full / 2 + full.mul_f64(f64::from(dice) / f64::from(u32::MAX) / 2.0);
    spread.max(wish.unwrap_or_default().min(LONGEST_WISH))
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let now = Timestamp::try_from(SystemTime::now()).ok()?;
    Duration::try_from(at.duration_since(now)).ok()
}

/// `partialSuccess.rejectedSpans`, a number or (as protobuf's JSON has it) a string.
fn rejected(answer: &[u8]) -> u64 {
    let answer: serde_json::Value = serde_json::from_slice(answer).unwrap_or_default();
    let count = &answer["partialSuccess"]["rejectedSpans"];
    count.as_u64().or_else(|| count.as_str()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_one_meaning() {
        let means = |status| match verdict(status, None, 0) {
            Verdict::Taken { .. } => "taken",
            Verdict::Later { .. } => "later",
            Verdict::Refused(_) => "refused",
            Verdict::Misconfigured { .. } => "mend",
        };
        for (statuses, meaning) in [
            (&[200, 202, 207][..], "taken"),
            (&[408, 425, 429, 500, 502, 503, 504], "later"),
            (&[400, 413, 422], "refused"),
            (&[401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 415, 418, 421, 426, 431, 451, 499, 300, 301, 302, 307, 308, 600, 999], "mend"),
        ] {
            statuses.iter().for_each(|status| assert_eq!(means(*status), meaning, "{status}"));
        }
        // Exchanges are set aside for these alone.
        assert_eq!((100..1_000).filter(|status| means(*status) == "refused").collect::<Vec<u16>>(), [400, 413, 422]);
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_to_be_mended_and_a_cut_connection_is_not() {
        let met = |why: &str| unanswered(why.to_owned());
        assert!(matches!(met("error: invalid peer certificate: UnknownIssuer"), Verdict::Misconfigured { remedy, .. } if remedy.contains("ca_file")));
        assert!(matches!(met("connection reset by peer"), Verdict::Later { wish: None, .. }));
    }

    #[test]
    fn pauses_double_are_spread_and_end_at_a_minute_unless_the_other_side_wishes_longer() {
        let s = |n| Duration::from_secs(n);
        assert_eq!((pause(1, u32::MAX, None), pause(1, 0, None)), (s(1), s(1) / 2));
        assert_eq!((pause(4, u32::MAX, None), pause(7, u32::MAX, None), pause(u32::MAX, u32::MAX, None)), (s(8), s(60), s(60)));
        assert_eq!((pause(1, 0, Some(s(7))), pause(1, 0, Some(s(9_999)))), (s(7), s(300)));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let wish = |text: &str| retry_after(&HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]));
        assert_eq!(wish("7"), Some(Duration::from_secs(7)));
        let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(120);
        let soon = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap();
        let found = wish(&soon).unwrap().as_secs();
        assert!((100..=120).contains(&found), "{found}");
        assert!(wish("Wed, 21 Oct 2099 07:28:00 GMT").is_some());
        for none in ["soon", "-1", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(wish(none), None, "{none}");
        }
    }

    #[test]
    fn rejected_spans_are_read_however_they_are_written() {
        assert_eq!(rejected(br#"{"partialSuccess":{"rejectedSpans":"3"}}"#), 3);
        assert_eq!(rejected(br#"{"partialSuccess":{"rejectedSpans":2,"errorMessage":"x"}}"#), 2);
        assert_eq!((rejected(b"{}"), rejected(b"not json")), (0, 0));
    }
}
