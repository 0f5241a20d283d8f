//! One way out: follows the log from its cursor and posts what ended, oldest first, one request at a time. The cursor moves
//! on disk after each batch that was taken and before the next is sent, so at most one batch is ever sent twice. There is
//! no queue: at most one batch is in memory, and while the other side is away the log waits on disk. Each try reads anew.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::batch::{BATCH, Batch, Dialect, Sink};
use super::langfuse;
use super::post::{self, Verdict};
use crate::config::Start;
use crate::core::ids::{RequestId, Seq};
use crate::metrics;
use crate::store::{Store, StoreError, Written};

/// What ends within this goes out together.
const LINGER: Duration = Duration::from_secs(1);
/// When only somebody can mend it.
const UNMENDED: Duration = Duration::from_secs(300);
/// So many single spans refused in a row are no bad spans: something else is wrong.
const REFUSALS: u32 = 10;
/// The cursor moves on disk at least this often when nothing ends.
const IDLE_ROWS: u64 = 2_000;
const STORE_RETRY: Duration = Duration::from_secs(1);
/// As many rows of the log are counted through for what waits at the start, so many at once.
const COUNTED: u64 = 100_000;
const COUNT: usize = 4_096;

pub(super) struct Exporter {
    sink: Arc<Sink>,
    store: Arc<Store>,
    stop: CancellationToken,
    /// Everything up to here is exported, and as far as that is on disk.
    cursor: Seq,
    saved: Option<Seq>,
    /// So many spans go into the next request: fewer after one that was refused.
    most: usize,
    failures: u32,
    refusals: u32,
    /// What the log was told last, so that it is told once.
    told: String,
    /// Something was taken: the other side is there.
    there: Arc<Notify>,
}

/// The relay stops, or the store is gone.
pub(super) struct Stopped;

impl Exporter {
    pub(super) fn new(sink: Sink, store: Arc<Store>, stop: CancellationToken) -> Self {
        let (sink, there) = (Arc::new(sink), Arc::new(Notify::new()));
        Self { sink, store, stop, cursor: Seq(0), saved: None, most: BATCH, failures: 0, refusals: 0, told: String::new(), there }
    }

    /// Ends after `stop`, within the time that the configuration gives.
    pub(super) async fn run(&mut self) {
        let (stop, bound) = (self.stop.clone(), self.sink.export.shutdown);
        let late = async move {
            stop.cancelled().await;
            tokio::time::sleep(bound).await;
        };
        let (sink, there, again) = (self.sink.clone(), self.there.clone(), self.stop.clone());
        let look = async move {
            if let Dialect::Langfuse { base_url, .. } = &sink.dialect {
                again.run_until_cancelled(langfuse::look_at_version(&sink.client, base_url, &there)).await;
            }
        };
        let work = async { tokio::join!(look, self.follow()) };
        tokio::select! {
            _ = work => {}
            () = late => tracing::debug!("an export was cut by the stop; it goes on at the next start"),
        }
    }

    async fn follow(&mut self) -> Result<(), Stopped> {
        self.greet().await?;
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

    /// Where an earlier run stopped, also if that went elsewhere, or where the configuration says to begin: on disk before
    /// anybody can ask, so that nothing falls between.
    pub(super) async fn find_place(&mut self) -> Result<(), Stopped> {
        let name = self.sink.name;
        let kept = self.read(Store::cursors).await?.into_iter().filter(|(key, _)| key.split(':').next() == Some(name));
        let kept: Vec<(String, Seq)> = kept.collect();
        let last = *self.store.last().borrow();
        let own = kept.iter().find(|(key, _)| *key == self.sink.key).map(|(_, seq)| *seq);
        let former = kept.iter().map(|(_, seq)| *seq).max();
        self.cursor = match (own, former, self.sink.export.start) {
            (Some(own), ..) => own,
            (None, Some(former), Start::Now) => {
                tracing::info!(sink = name, to = %self.sink.url, "the destination has changed: the export goes on where the former one stopped");
                former
            }
            (None, Some(_), Start::All) => {
                tracing::info!(sink = name, to = %self.sink.url, "the destination has changed: it gets the whole history, as start = \"all\" says");
                Seq(0)
            }
            (None, None, Start::Now) => last,
            (None, None, Start::All) => Seq(0),
        };
        if self.cursor > last {
            let cursor = self.cursor.0;
            tracing::warn!(sink = name, cursor, log = last.0, "the export was ahead of the log, which is an older copy; it goes on from here");
            self.cursor = last;
        }
        // Nothing is written where nothing changes: a full disk must not hold up the start.
        self.saved = own.filter(|_| kept.len() == 1);
        self.save(self.cursor).await
    }

    /// Says where to, and how much waits.
    async fn greet(&self) -> Result<(), Stopped> {
        let (begin, mut from, mut waiting) = (self.cursor, self.cursor, 0);
        let more = loop {
            let (count, upto) = self.read(move |store| store.count_ends(from, COUNT)).await?;
            waiting += count;
            if upto == from {
                break "";
            }
            from = upto;
            if upto.0 - begin.0 > COUNTED {
                break "at least ";
            }
        };
        let waiting = format!("{more}{waiting}");
        tracing::info!(sink = self.sink.name, to = %self.sink.url, waiting, "exports finished exchanges");
        Ok(())
    }

    /// Sends until it has reached what the log's end was when it began its last reading.
    async fn drain(&mut self) -> Result<(), Stopped> {
        loop {
            let (after, most, end, sink) = (self.cursor, self.most, *self.store.last().borrow(), self.sink.clone());
            let batch = self.read(move |store| sink.batch(store, after, most)).await?;
            let upto = batch.upto;
            self.send(batch).await?;
            if self.cursor == upto && (upto >= end || upto == after) {
                return Ok(());
            }
        }
    }

    /// One try. Whatever comes of it, the next reads from the cursor on.
    async fn send(&mut self, mut batch: Batch) -> Result<(), Stopped> {
        if batch.spans == 0 {
            return self.pass(&batch).await;
        }
        let Sink { client, url, headers, dialect, .. } = &*self.sink;
        let body = std::mem::take(&mut batch.body);
        let (status, verdict) = post::post(client, url, headers, body, matches!(dialect, Dialect::GenAi)).await;
        self.metrics(|m| m.requested(status));
        match verdict {
            Verdict::Taken { rejected } => {
                self.taken(batch.spans as u64, rejected);
                self.most = (self.most * 2).min(BATCH);
                self.pass(&batch).await
            }
            // Halved until the one bad span is found.
            Verdict::Refused(_) if batch.spans > 1 => {
                self.most = batch.spans / 2;
                Ok(())
            }
            Verdict::Refused(status) => {
                self.pass(&batch).await?;
                self.set_aside(batch.last, status).await
            }
            Verdict::Later { why, wish } => self.later(&why, wish).await,
            Verdict::Misconfigured { why, remedy } => self.unmended(&why, remedy).await,
        }
    }

    /// A batch is done with: nothing of it is read again.
    async fn pass(&mut self, batch: &Batch) -> Result<(), Stopped> {
        let unreadable = batch.unreadable.len() as u64;
        if let Some((Seq(position), error)) = batch.unreadable.first() {
            tracing::error!(
                sink = self.sink.name,
                rows = unreadable,
                position,
                error,
                "what is on record of some exchanges cannot be read: they are left out of the export; restore a backup if they matter"
            );
        }
        self.metrics(|m| {
            m.spans.add("sampled_out", batch.sampled_out);
            m.spans.add("retention", batch.gone);
            m.spans.add("rejected", unreadable);
            m.cursor.set(batch.upto.0);
        });
        self.cursor = batch.upto;
        if batch.spans > 0 || self.saved.is_none_or(|saved| batch.upto.0 - saved.0 >= IDLE_ROWS) {
            self.save(batch.upto).await?;
        }
        Ok(())
    }

    fn taken(&mut self, spans: u64, rejected: u64) {
        if !self.told.is_empty() {
            tracing::info!(sink = self.sink.name, "the export goes on");
        }
        (self.failures, self.refusals, self.told) = (0, 0, String::new());
        self.there.notify_one();
        if rejected > 0 {
            tracing::warn!(sink = self.sink.name, spans, rejected, "of a request that was taken the other side left some exchanges out, for good");
        }
        self.metrics(|m| {
            m.spans.add("exported", spans.saturating_sub(rejected));
            m.spans.add("rejected", rejected);
        });
    }

    /// A span that the other side will never take. When it takes none at all, losing more helps nobody.
    async fn set_aside(&mut self, exchange: Option<RequestId>, status: u16) -> Result<(), Stopped> {
        let request_id = exchange.map(|id| id.to_string());
        tracing::warn!(sink = self.sink.name, request_id, status, "one exchange is refused for good and left out of the export");
        self.metrics(|m| m.spans.one("rejected"));
        self.refusals += 1;
        if self.refusals < REFUSALS {
            return Ok(());
        }
        if self.is_new("refuses all") {
            let to = &self.sink.url;
            tracing::error!(sink = self.sink.name, %to, status, "refuses everything: look at what answers there. One exchange is tried every 5 minutes");
        }
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
        while self.saved != Some(cursor) {
            let permit = self.store.reserve().await.map_err(|_| Stopped)?;
            let (told, done) = tokio::sync::oneshot::channel();
            self.store.put_cursor(permit, &self.sink.key, cursor, move |written| {
                let _ = told.send(written);
            });
            match done.await {
                Ok(Written::Durable) => self.saved = Some(cursor),
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
        for seq in 1..=12_u64 {
            assert!(exporter.set_aside(None, 422).await.is_ok());
            let rests = u64::from(REFUSALS).saturating_sub(1);
            assert_eq!(begun.elapsed().as_secs(), seq.saturating_sub(rests) * 300, "after {seq}");
        }
        exporter.taken(1, 0);
        assert!(exporter.set_aside(None, 422).await.is_ok());
        assert_eq!(begun.elapsed().as_secs(), 900, "one that is taken begins the count anew");
    }
}
