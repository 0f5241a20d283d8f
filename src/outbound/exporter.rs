//! One way out: follows the log from its cursor and posts what ended, oldest first, one request at a time. The cursor moves
//! on disk after each batch that was taken and before the next is sent, so at most one batch is ever sent twice. There is
//! no queue: at most one batch is in memory, and while the other side is away the log waits on disk.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use reqwest::header::HeaderMap;
use tokio_util::sync::CancellationToken;

use super::content::Content;
use super::post::{self, Verdict};
use super::span::{Envelope, Span};
use super::{genai, langfuse};
use crate::config::{Export, Start};
use crate::core::ids::Seq;
use crate::core::outcome::Outcome;
use crate::metrics;
use crate::store::{Ends, Finished, Store, StoreError, Written};

/// Spans and bytes in one request; a single span may be larger.
const BATCH: usize = 100;
const BATCH_BYTES: usize = 1 << 20;
/// What ends within this goes out together.
const LINGER: Duration = Duration::from_secs(1);
/// When only somebody can mend it.
const UNMENDED: Duration = Duration::from_secs(300);
/// So many single spans refused in a row are no bad spans: something else is wrong.
const REFUSALS: u32 = 10;
/// The cursor moves on disk at least this often when nothing ends.
const IDLE_ROWS: u64 = 2_000;
const STORE_RETRY: Duration = Duration::from_secs(1);

pub(super) enum Dialect {
    Langfuse { base_url: String, tags: Vec<String> },
    GenAi,
}

/// Where to, how, and what of it.
pub(super) struct Sink {
    pub name: &'static str,
    /// Kind and a hash of address and account: another project has a cursor of its own.
    pub key: String,
    pub client: Client,
    pub url: String,
    pub headers: HeaderMap,
    pub envelope: Envelope,
    pub dialect: Dialect,
    pub content: Content,
    pub export: Export,
}

pub(super) struct Exporter {
    sink: Sink,
    store: Arc<Store>,
    stop: CancellationToken,
    /// Everything up to here is exported, and as far as that is on disk.
    cursor: Seq,
    saved: Seq,
    failures: u32,
    refusals: u32,
    /// What the log was told last, so that it is told once.
    told: String,
}

/// The relay stops, or the store is gone.
pub(super) struct Stopped;

struct Batch {
    spans: Vec<(Seq, Vec<u8>)>,
    upto: Seq,
}

impl Exporter {
    pub(super) fn new(sink: Sink, store: Arc<Store>, stop: CancellationToken) -> Self {
        Self { sink, store, stop, cursor: Seq(0), saved: Seq(0), failures: 0, refusals: 0, told: String::new() }
    }

    /// Ends after `stop`, within the time that the configuration gives.
    pub(super) async fn run(&mut self) {
        let (stop, bound) = (self.stop.clone(), self.sink.export.shutdown);
        let late = async move {
            stop.cancelled().await;
            tokio::time::sleep(bound).await;
        };
        let (client, again) = (self.sink.client.clone(), self.stop.clone());
        let look = match &self.sink.dialect {
            Dialect::Langfuse { base_url, .. } => Some(langfuse::look_at_version(client, base_url.clone())),
            Dialect::GenAi => None,
        };
        let look = async move {
            if let Some(look) = look {
                again.run_until_cancelled(look).await;
            }
        };
        let work = async { tokio::join!(look, self.follow()) };
        tokio::select! {
            _ = work => {}
            () = late => tracing::debug!("an export was cut by the stop; it goes on at the next start"),
        }
    }

    async fn follow(&mut self) -> Result<(), Stopped> {
        let mut last = self.store.last();
        let stop = self.stop.clone();
        while !stop.is_cancelled() {
            let cursor = self.cursor;
            tokio::select! {
                changed = last.wait_for(|seq| *seq > cursor) => drop(changed.map_err(|_| Stopped)?),
                () = stop.cancelled() => break,
            }
            tokio::select! {
                () = tokio::time::sleep(LINGER) => {}
                () = stop.cancelled() => break,
            }
            self.drain().await?;
        }
        self.drain().await?;
        self.save(self.cursor).await
    }

    /// The cursor of an earlier run, or where the configuration says to begin: on disk before anybody can ask, so that nothing
    /// falls between.
    pub(super) async fn find_place(&mut self) -> Result<(), Stopped> {
        let key = self.sink.key.clone();
        let found = self.read(move |store| store.cursor(&key)).await?;
        let last = *self.store.last().borrow();
        self.cursor = match (found, self.sink.export.start) {
            (Some(cursor), _) if cursor <= last => {
                self.saved = cursor;
                cursor
            }
            (Some(cursor), _) => {
                tracing::warn!(
                    sink = self.sink.name,
                    cursor = cursor.0,
                    log = last.0,
                    "the export was ahead of the log, which is an older copy; it goes on from here"
                );
                last
            }
            (None, Start::Now) => last,
            (None, Start::All) => Seq(0),
        };
        tracing::info!(sink = self.sink.name, to = %self.sink.url, backlog = last.0 - self.cursor.0, "exports finished exchanges");
        self.save(self.cursor).await
    }

    /// Sends until it has reached what the log's end was when it began its last reading.
    async fn drain(&mut self) -> Result<(), Stopped> {
        loop {
            let (after, end) = (self.cursor, *self.store.last().borrow());
            let ends = self.read(move |store| store.ends(after, BATCH, BATCH_BYTES)).await?;
            let batch = self.encode(ends);
            self.deliver(&batch).await?;
            self.cursor = batch.upto;
            if !batch.spans.is_empty() || batch.upto.0 - self.saved.0 >= IDLE_ROWS {
                self.save(batch.upto).await?;
            }
            self.metrics(|m| m.cursor.set(batch.upto.0));
            if batch.upto >= end || batch.upto == after {
                return Ok(());
            }
        }
    }

    /// As many of them as one request takes; the rest is read again.
    fn encode(&self, ends: Ends) -> Batch {
        let mut batch = Batch { spans: Vec::with_capacity(ends.found.len()), upto: ends.upto };
        let (mut bytes, mut sampled_out, mut before) = (0, 0, self.cursor);
        for finished in ends.found {
            let span = self.span(&finished).filter(|span| self.is_kept(&finished, span)).map(|span| span.encoded());
            let size = span.as_ref().map_or(0, Vec::len);
            if !batch.spans.is_empty() && bytes + size > BATCH_BYTES {
                batch.upto = before;
                break;
            }
            bytes += size;
            before = finished.seq;
            match span {
                Some(span) => batch.spans.push((finished.seq, span)),
                None => sampled_out += 1,
            }
        }
        self.metrics(|m| {
            m.spans.add("sampled_out", sampled_out);
            m.spans.add("retention", ends.gone);
        });
        batch
    }

    fn span(&self, finished: &Finished) -> Option<Span> {
        match &self.sink.dialect {
            Dialect::Langfuse { tags, .. } => langfuse::span(finished, tags, &self.sink.content),
            Dialect::GenAi => genai::span(finished, &self.sink.content),
        }
    }

    /// Decided by the trace, so that a conversation is there whole or not at all, but for what ended badly.
    fn is_kept(&self, finished: &Finished, span: &Span) -> bool {
        let good = finished.record.end.as_ref().is_some_and(|end| end.outcome == Outcome::Answered);
        let place = span.trace_id().get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        !good || place.is_none_or(|place| place < self.sink.export.sample)
    }

    /// Sends all of a batch, halving what is refused until the one bad span is found and set aside.
    async fn deliver(&mut self, batch: &Batch) -> Result<(), Stopped> {
        let (mut rest, mut size) = (batch.spans.as_slice(), batch.spans.len());
        while let Some((last, _)) = rest.get(..size.min(rest.len())).and_then(<[_]>::last) {
            let (part, behind) = rest.split_at(size.min(rest.len()));
            let body = self.sink.envelope.around(part.iter().map(|(_, span)| span.as_slice()));
            let Sink { client, url, headers, dialect, .. } = &self.sink;
            let (status, verdict) = post::post(client, url, headers, body, matches!(dialect, Dialect::GenAi)).await;
            self.metrics(|m| m.requested(status));
            match verdict {
                Verdict::Taken { rejected } => {
                    self.taken(part.len() as u64, rejected);
                    (rest, size) = (behind, size * 2);
                }
                Verdict::Refused(status) if part.len() == 1 => {
                    self.set_aside(*last, status).await?;
                    rest = behind;
                }
                Verdict::Refused(_) => {
                    size = part.len() / 2;
                    continue;
                }
                Verdict::Later { why, wish } => {
                    self.later(&why, wish).await?;
                    continue;
                }
                Verdict::Misconfigured { why, remedy } => {
                    self.unmended(&why, remedy).await?;
                    continue;
                }
            }
            if !rest.is_empty() {
                self.cursor = *last;
                self.save(*last).await?;
            }
        }
        Ok(())
    }

    fn taken(&mut self, spans: u64, rejected: u64) {
        if !self.told.is_empty() {
            tracing::info!(sink = self.sink.name, "the export goes on");
        }
        (self.failures, self.refusals, self.told) = (0, 0, String::new());
        if rejected > 0 {
            tracing::warn!(sink = self.sink.name, spans, rejected, "of a request that was taken the other side left some exchanges out, for good");
        }
        self.metrics(|m| {
            m.spans.add("exported", spans.saturating_sub(rejected));
            m.spans.add("rejected", rejected);
        });
    }

    /// A span that the other side will never take. When it takes none at all, losing more helps nobody.
    async fn set_aside(&mut self, seq: Seq, status: u16) -> Result<(), Stopped> {
        tracing::warn!(sink = self.sink.name, position = seq.0, status, "one exchange is refused for good and left out of the export");
        self.metrics(|m| m.spans.one("rejected"));
        self.refusals += 1;
        if self.refusals < REFUSALS {
            return Ok(());
        }
        if self.is_new("refuses all") {
            let to = &self.sink.url;
            tracing::error!(sink = self.sink.name, %to, status, "refuses everything: look at what answers there. One exchange is tried every 5 minutes");
        }
        self.save(seq).await?;
        self.rest(UNMENDED).await
    }

    async fn unmended(&mut self, why: &str, remedy: &str) -> Result<(), Stopped> {
        if self.is_new(why) {
            let to = &self.sink.url;
            tracing::error!(sink = self.sink.name, %to, "{why}: {remedy}. Nothing is lost: it is tried again every 5 minutes");
        }
        self.rest(UNMENDED).await
    }

    async fn later(&mut self, why: &str, wish: Option<Duration>) -> Result<(), Stopped> {
        self.failures = self.failures.saturating_add(1);
        if self.is_new("later") {
            tracing::warn!(sink = self.sink.name, why, "the export waits; nothing is lost, it is tried again until it is taken");
        }
        let dice = getrandom::u32().unwrap_or(u32::MAX);
        self.rest(post::pause(self.failures, dice, wish)).await
    }

    /// Whether the log was not told this last.
    fn is_new(&mut self, what: &str) -> bool {
        let new = self.told != what;
        what.clone_into(&mut self.told);
        new
    }

    /// Nothing waits for long once the relay stops.
    async fn rest(&self, pause: Duration) -> Result<(), Stopped> {
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            () = self.stop.cancelled() => Err(Stopped),
        }
    }

    /// On disk before it returns.
    async fn save(&mut self, cursor: Seq) -> Result<(), Stopped> {
        while self.saved != cursor || cursor.0 == 0 {
            let permit = self.store.reserve().await.map_err(|_| Stopped)?;
            let (told, done) = tokio::sync::oneshot::channel();
            self.store.put_cursor(permit, &self.sink.key, cursor, move |written| {
                let _ = told.send(written);
            });
            match done.await {
                Ok(Written::Durable) => {
                    self.saved = cursor;
                    break;
                }
                _ => self.rest(STORE_RETRY).await?,
            }
        }
        self.metrics(|m| m.cursor.set(cursor.0));
        Ok(())
    }

    async fn read<T: Send + 'static>(&self, read: impl Fn(&Store) -> Result<T, StoreError> + Clone + Send + 'static) -> Result<T, Stopped> {
        loop {
            let (store, read) = (self.store.clone(), read.clone());
            match tokio::task::spawn_blocking(move || read(&store)).await {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(e @ StoreError::Record(_))) => tracing::warn!(sink = self.sink.name, error = %e, "the export stands still"),
                Ok(Err(e)) => tracing::debug!(sink = self.sink.name, error = %e, "the log cannot be read yet"),
                Err(_) => tracing::error!(sink = self.sink.name, "reading the log panicked; the export stands still and tries again"),
            }
            self.rest(STORE_RETRY).await?;
        }
    }

    fn metrics(&self, with: impl FnOnce(&metrics::Export)) {
        self.store.metrics().export(self.sink.name, with);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    fn exporter(dir: &std::path::Path) -> Exporter {
        let path = dir.join("b.toml");
        std::fs::write(&path, "[otlp]\nendpoint = \"http://127.0.0.1:1\"\n").unwrap();
        let config = crate::config::load(&crate::config::Flags { config: Some(path), ..Default::default() }, &|_| None).unwrap();
        let sink = super::super::otlp_sink(config.otlp.as_ref().unwrap(), tokio::sync::watch::Sender::new(Vec::new()).subscribe());
        Exporter::new(sink.unwrap_or_else(|e| panic!("{e}")), Arc::new(Store::open(&dir.join("data")).unwrap()), CancellationToken::new())
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_must_mend_is_tried_again_after_five_minutes_and_holds_up_no_stop() {
        let dir = tempfile::tempdir().unwrap();
        let mut exporter = exporter(dir.path());
        let begun = Instant::now();
        for minutes in [5, 10] {
            assert!(exporter.unmended("answers 401", "look at the keys").await.is_ok());
            assert_eq!(begun.elapsed().as_secs(), minutes * 60);
        }
        exporter.stop.cancel();
        assert!(exporter.unmended("answers 401", "look at the keys").await.is_err());
        assert_eq!(begun.elapsed().as_secs(), 600);
    }

    #[tokio::test(start_paused = true)]
    async fn where_ten_exchanges_in_a_row_are_refused_for_good_one_is_tried_every_five_minutes() {
        let dir = tempfile::tempdir().unwrap();
        let mut exporter = exporter(dir.path());
        let begun = Instant::now();
        for seq in 1..=12 {
            assert!(exporter.set_aside(Seq(seq), 422).await.is_ok());
            let rests = u64::from(REFUSALS).saturating_sub(1);
            assert_eq!(begun.elapsed().as_secs(), seq.saturating_sub(rests) * 300, "after {seq}");
        }
        assert_eq!(exporter.saved, Seq(12));
        exporter.taken(1, 0);
        assert!(exporter.set_aside(Seq(14), 422).await.is_ok());
        assert_eq!(begun.elapsed().as_secs(), 900, "one that is taken begins the count anew");
    }
}
