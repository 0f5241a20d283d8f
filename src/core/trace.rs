//! Trace context: whether a caller's `traceparent` is one (W3C Trace Context, version 00), and which trace and span an
//! exchange is. Any bot or script can compute the same ids: the first 16 bytes of SHA-256 of the conversation's id, the
//! first 8 of that of the request's.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::exchange::Asked;
use super::ids::{ConversationId, RequestId};

/// 32 lower-case hexadecimal digits.
#[must_use]
pub fn trace_id(conversation: ConversationId) -> String {
    let digest = Sha256::digest(conversation.to_string());
    format!("{:032x}", digest.iter().take(16).fold(0u128, |n, b| n << 8 | u128::from(*b)))
}

/// 16 lower-case hexadecimal digits.
#[must_use]
pub fn span_id(request: RequestId) -> String {
    let digest = Sha256::digest(request.to_string());
    format!("{:016x}", digest.iter().take(8).fold(0u64, |n, b| n << 8 | u64::from(*b)))
}

/// What the asked bot is told: the caller's own trace, or the one that the exchange has by its ids.
#[must_use]
pub fn parent_of(asked: &Asked) -> Arc<str> {
    match &asked.traceparent {
        Some(given) => given.clone(),
        None => format!("00-{}-{}-01", trace_id(asked.conversation), span_id(asked.id)).into(),
    }
}

/// The caller's claim, if it is a valid `traceparent`; anything else is as if nothing had been sent.
#[must_use]
pub fn traceparent(claim: &str) -> Option<String> {
    parts(claim).map(|_| claim.to_owned())
}

/// Trace id and parent id of a `traceparent`.
#[must_use]
pub fn parts(traceparent: &str) -> Option<(&str, &str)> {
    let mut fields = traceparent.split('-');
    let (version, trace, parent, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let digits = |field: &str, count| field.len() == count && field.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let zero = |field: &str| field.bytes().all(|b| b == b'0');
    let whole = fields.next().is_none() && version == "00" && digits(trace, 32) && digits(parent, 16) && digits(flags, 2);
    (whole && !zero(trace) && !zero(parent)).then_some((trace, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_of_a_conversation_is_what_the_official_sdks_compute_for_its_id() {
        let conversation = ConversationId::parse("3f1c0d5e-8a4b-4c2d-9e6f-0123456789ab").unwrap();
        assert_eq!(trace_id(conversation), "50e1c33daf11247024b3a9c3103f9790");
        assert_eq!(span_id(RequestId(conversation.0)), "50e1c33daf112470");
    }

    #[test]
    fn only_a_whole_traceparent_of_version_00_counts() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(traceparent(good).as_deref(), Some(good));
        assert_eq!(parts(good), Some(("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")));
        for bad in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473\u{e9}-00f067aa0ba902b7-01",
        ] {
            assert_eq!(traceparent(bad), None, "{bad:?}");
        }
    }
}
