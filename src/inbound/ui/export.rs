//! Exactly what the address shows, whole, as CSV, JSON or one JSON a line: streamed page by page, so that a million
//! exchanges take no more memory than two hundred.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;

use super::when;
use crate::core::exchange::Record;
use crate::engine::{Engine, HistoryError, Search};
use crate::wire::history::ExchangeJson;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    Json,
    Lines,
}

/// Fewer than a search may have: texts can be long.
const PAGE: usize = 100;
const HEADER: &str = "request_id,conversation_id,asked_at,from,to,status,duration_ms,question,answer,reason,late,origin\r\n";

impl Format {
    pub(super) fn parse(extension: &str) -> Option<Self> {
        match extension {
            "csv" => Some(Self::Csv),
            "json" => Some(Self::Json),
            "ndjson" => Some(Self::Lines),
            _ => None,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Json => "application/json",
            Self::Lines => "application/x-ndjson",
        }
    }
}

struct State {
    engine: Arc<Engine>,
    search: Search,
    format: Format,
    begun: bool,
    done: bool,
}

pub(super) fn stream(engine: Arc<Engine>, search: Search, format: Format) -> impl Stream<Item = Result<Bytes, HistoryError>> + Send + Sync + 'static {
    let search = Search { limit: PAGE, counts: false, ..search };
    let state = State { engine, search, format, begun: false, done: false };
    let pages = futures_util::stream::unfold(state, |mut state| async move {
        if state.done {
            return None;
        }
        let page = state.page().await;
        state.done |= page.is_err();
        Some((page, state))
    });
    SyncStream::new(pages)
}

impl State {
    async fn page(&mut self) -> Result<Bytes, HistoryError> {
        let found = self.engine.search_on(self.search.clone()).await?;
        let mut text = String::new();
        match (self.begun, self.format) {
            (false, Format::Csv) => text.push_str(HEADER),
            (false, Format::Json) => text.push('['),
            _ => {}
        }
        for record in &found.records {
            match self.format {
                Format::Csv => row(record, &mut text),
                Format::Json => {
                    text.push_str(if self.begun { ",\n" } else { "\n" });
                    text.push_str(&json(record));
                }
                Format::Lines => {
                    text.push_str(&json(record));
                    text.push('\n');
                }
            }
            self.begun = true;
        }
        self.begun = true;
        match found.next {
            Some(next) => self.search.before = next,
            None => {
                self.done = true;
                if self.format == Format::Json {
                    text.push_str("\n]\n");
                }
            }
        }
        Ok(text.into())
    }
}

fn json(record: &Record) -> String {
    serde_json::to_string(&ExchangeJson::from(record)).unwrap_or_default()
}

fn row(record: &Record, out: &mut String) {
    let (asked, end) = (&record.asked, record.end.as_ref());
    let answer = record.answer().map_or("", |a| a);
    let reason = end.filter(|e| e.outcome != crate::core::outcome::Outcome::Answered).map_or("", |e| &*e.text);
    let duration = end.map(|e| e.at.since(asked.at).to_string()).unwrap_or_default();
    let (id, conversation, at) = (asked.id.to_string(), asked.conversation.to_string(), when::iso(asked.at));
    let late = if record.late.is_some() { "true" } else { "" };
    let origin = asked.trail.origin.as_str();
    let cells: [&str; 12] =
        [&id, &conversation, &at, asked.from.as_str(), &asked.to, record.status(), &duration, &asked.message, answer, reason, late, origin];
    for (n, cell) in cells.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        let _ = write!(out, "{comma}{}", quoted(cell));
    }
    out.push_str("\r\n");
}

/// A spreadsheet would run a cell that begins like a formula; a quote before it makes it text.
fn quoted(cell: &str) -> String {
    let formula = cell.trim_start_matches([' ', '"']).starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let cell = if formula { format!("'{cell}") } else { cell.to_owned() };
    if formula || cell.contains([',', '"', '\n', '\r', ';', '\t']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

/// Bodies must be Sync, although they are only ever polled by one.
pub(super) struct SyncStream<S>(std::sync::Mutex<std::pin::Pin<Box<S>>>);

impl<S> SyncStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self(std::sync::Mutex::new(Box::pin(stream)))
    }
}

impl<S: Stream + Send> Stream for SyncStream<S> {
    type Item = S::Item;

    fn poll_next(self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Option<S::Item>> {
        let inner = self.get_mut().0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        inner.as_mut().poll_next(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_text_for_every_spreadsheet() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
        for formula in ["=1+1", "+1", "-1", "@a", "\t=1", " =1", "\"=1"] {
            assert!(quoted(formula).starts_with("\"'"), "{formula:?}");
        }
        assert_eq!(quoted("two\nlines"), "\"two\nlines\"");
    }
}
