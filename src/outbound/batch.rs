//! What goes out in one request: read from the log and encoded anew for each try, so that what was erased in an outage is not
//! in it, and what is to be hidden by now is hidden.

use reqwest::Client;
use reqwest::header::HeaderMap;

use super::content::Content;
use super::span::{Envelope, Span};
use super::{genai, langfuse};
use crate::config::Export;
use crate::core::ids::{RequestId, Seq};
use crate::core::outcome::Outcome;
use crate::store::{Finished, Store, StoreError};

/// Spans and bytes in one request; a single span may be larger.
pub(super) const BATCH: usize = 100;
const BATCH_BYTES: usize = 1 << 20;

pub(super) enum Dialect {
    Langfuse { base_url: String, tags: Vec<String> },
    GenAi,
}

/// Where to, how, and what of it.
pub(super) struct Sink {
    /// Its kind, of which there is one.
    pub name: &'static str,
    /// Of its cursor: kind and a hash of address and account.
    pub key: String,
    pub client: Client,
    pub url: String,
    pub headers: HeaderMap,
    pub envelope: Envelope,
    pub dialect: Dialect,
    pub content: Content,
    pub export: Export,
}

pub(super) struct Batch {
    /// The whole request, and how many spans are in it.
    pub body: Vec<u8>,
    pub spans: usize,
    /// Of the last span.
    pub last: Option<RequestId>,
    /// Everything after the cursor and up to here is in it, or is one of these:
    pub upto: Seq,
    pub sampled_out: u64,
    /// Not kept any more.
    pub gone: u64,
    pub unreadable: Vec<(Seq, String)>,
}

impl Sink {
    /// What stands in the log after `after`, at most `most` spans. Blocks: it reads, and looks through texts for what is to be
    /// hidden.
    pub(super) fn batch(&self, store: &Store, after: Seq, most: usize) -> Result<Batch, StoreError> {
        let mut ends = store.ends(after, most, BATCH_BYTES)?;
        let mut spans: Vec<Vec<u8>> = Vec::with_capacity(ends.found.len());
        let (mut bytes, mut sampled_out, mut before, mut last) = (0, 0, after, None);
        for finished in ends.found {
            match self.span(&finished).filter(|span| self.is_kept(&finished, span)).map(|span| span.encoded()) {
                Some(span) if !spans.is_empty() && bytes + span.len() > BATCH_BYTES => {
                    // The rest is read again.
                    ends.upto = before;
                    break;
                }
                Some(span) => {
                    bytes += span.len();
                    spans.push(span);
                    last = Some(finished.record.asked.id);
                }
                None => sampled_out += 1,
            }
            before = finished.seq;
        }
        ends.gone.retain(|seq| *seq <= ends.upto);
        ends.unreadable.retain(|(seq, _)| *seq <= ends.upto);
        let body = self.envelope.around(spans.iter().map(Vec::as_slice));
        let gone = ends.gone.len() as u64;
        Ok(Batch { body, spans: spans.len(), last, upto: ends.upto, sampled_out, gone, unreadable: ends.unreadable })
    }

    fn span(&self, finished: &Finished) -> Option<Span> {
        match &self.dialect {
            Dialect::Langfuse { tags, .. } => langfuse::span(finished, tags, &self.content),
            Dialect::GenAi => genai::span(finished, &self.content),
        }
    }

    /// Decided by the trace, so that a conversation is there whole or not at all, but for what ended badly.
    fn is_kept(&self, finished: &Finished, span: &Span) -> bool {
        let good = finished.record.end.as_ref().is_some_and(|end| end.outcome == Outcome::Answered);
        let place = span.trace_id().get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        !good || place.is_none_or(|place| place < self.export.sample)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::super::tests::finished;
    use super::*;
    use crate::core::ids::ConversationId;

    #[test]
    fn half_of_the_conversations_are_half_of_them_with_all_their_turns_and_what_ended_badly_is_always_there() {
        let config = super::super::tests::config("sample_rate = 0.5");
        let sink = super::super::otlp_sink(config.otlp.as_ref().unwrap(), tokio::sync::watch::Sender::new(Vec::new()).subscribe());
        let sink = sink.unwrap_or_else(|e| panic!("{e}"));
        let kept = |conversation: u128, turn: u128, outcome| {
            let mut finished = finished(outcome);
            let asked = Arc::make_mut(&mut finished.record.asked);
            (asked.conversation, asked.id) = (ConversationId::from_u128(conversation), RequestId::from_u128(conversation << 8 | turn));
            sink.is_kept(&finished, &sink.span(&finished).unwrap())
        };
        let mut taken = BTreeMap::new();
        for conversation in 1..=1_000 {
            let first = kept(conversation, 0, Outcome::Answered);
            assert!((1..4).all(|turn| kept(conversation, turn, Outcome::Answered) == first), "a conversation is torn");
            assert!(kept(conversation, 4, Outcome::Timeout));
            *taken.entry(first).or_insert(0) += 1;
        }
        // Always the same ones: 499 of these thousand.
        assert!((450..=550).contains(&taken[&true]), "{taken:?}");
    }
}
