//! The index on disk: opening, feeding, committing, emptying, closing, and searching it. Owns the files under `index-v*`
//! and the one writer. Whatever is doubtful is deleted and built anew from the log; what the log holds beyond the cursor
//! is the feeder's to hand over.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tantivy::directory::MmapDirectory;
use tantivy::directory::error::LockError;
use tantivy::indexer::{IndexWriterOptions, LogMergePolicy};
use tantivy::schema::Schema;
use tantivy::{IndexReader, IndexSettings, IndexWriter, ReloadPolicy, Searcher, TantivyError};

use super::SearchError;
use super::facets::{self, Facets};
use super::figures::{self, AgentFigures};
use super::health::{self, Reason};
use super::page::{Found, MAX_PAGE, Order, PageRequest};
use super::plan::{Spelling, plan};
use super::query::Query;
use super::schema::{Fields, VERSION, register, schema};
use super::top::Top;
use super::walk::walk;
use super::when::Now;
use crate::core::exchange::Record;
use crate::core::ids::{RequestId, Seq};

/// What the writer gathers in memory before it writes a segment; tantivy's least is 15 MB.
const WRITER_BYTES: usize = 20_000_000;
/// Segments of this many documents are merged no more, so that a search looks at the clock between pieces of bounded size
/// and a merge is never long.
const SEGMENT_DOCS: usize = 100_000;
/// Below this many documents all segments are merged alike: commits are frequent and small.
const SMALL_SEGMENT: u32 = 1_000;
/// Every exchange is put in twice, pending and ended.
const DELETED_SHARE: f32 = 0.3;

/// The search index. Searches run side by side with each other and with the writer.
pub struct Index {
    dir: PathBuf,
    fields: Fields,
    reader: RwLock<IndexReader>,
    /// `None` once closed.
    writer: Mutex<Option<IndexWriter>>,
    cursor: AtomicU64,
}

/// An opened index.
pub struct Opened {
    pub index: Index,
    /// It is empty, and this is why. `index.cursor()` is `Seq(0)` then.
    pub remade: Option<Reason>,
}

/// Opens the index under `data_dir`, or makes an empty one if there is none that can be trusted. Reads every file once
/// after an unclean end (seconds for a gigabyte), so do not make a start wait for it.
pub fn open(data_dir: &Path) -> Result<Opened, SearchError> {
    let dir = data_dir.join(format!("index-v{VERSION}"));
    remove_older(data_dir, &dir);
    let reason = match Parts::existing(&dir)? {
        Ok((parts, cursor)) => return Ok(Opened { index: Index::new(dir, parts, cursor), remade: None }),
        Err(reason) => reason,
    };
    tracing::info!(dir = %dir.display(), %reason, "the search index is built anew");
    let parts = Parts::anew(&dir)?;
    Ok(Opened { index: Index::new(dir, parts, 0), remade: Some(reason) })
}

/// Directories of other versions. One that cannot be removed only takes room.
fn remove_older(data_dir: &Path, keep: &Path) {
    let Ok(entries) = fs::read_dir(data_dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let ours = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_prefix("index-v")).is_some_and(|v| v.parse::<u32>().is_ok());
        if ours && path != keep {
            match fs::remove_dir_all(&path) {
                Ok(()) => tracing::info!(dir = %path.display(), "removed a search index of another version"),
                Err(error) => tracing::warn!(dir = %path.display(), %error, "cannot remove a search index of another version"),
            }
        }
    }
}

struct Parts {
    fields: Fields,
    reader: IndexReader,
    writer: IndexWriter,
}

impl Parts {
    /// The outer error is for what building anew would not mend.
    fn existing(dir: &Path) -> Result<Result<(Self, u64), Reason>, SearchError> {
        let file_error = |what| move |source| SearchError::Files { what, path: dir.to_owned(), source };
        if !dir.try_exists().map_err(file_error("look for"))? {
            return Ok(Err(Reason::Missing));
        }
        let mark = health::take_mark(dir).map_err(file_error("take the mark of a clean end from"))?;
        match Self::trusted(dir, mark.as_deref()) {
            Ok(Ok(found)) => Ok(Ok(found)),
            Ok(Err(what)) => Ok(Err(Reason::Damaged(what))),
            Err(TantivyError::LockFailure(LockError::LockBusy, _)) => Err(SearchError::InUse(dir.to_owned())),
            Err(error) => Ok(Err(Reason::Damaged(error.to_string()))),
        }
    }

    fn trusted(dir: &Path, mark: Option<&str>) -> tantivy::Result<Result<(Self, u64), String>> {
        let index = tantivy::Index::open_in_dir(dir)?;
        let (wanted, fields) = schema();
        if index.schema() != wanted {
            return Ok(Err("its fields are others".to_owned()));
        }
        if let Some(wrong) = health::examine(dir, &index, mark) {
            return Ok(Err(wrong));
        }
        let metas = index.load_metas()?;
        let cursor = match &metas.payload {
            None if metas.segments.is_empty() => 0,
            payload => match payload.as_deref().and_then(|p| p.parse().ok()) {
                Some(cursor) => cursor,
                None => return Ok(Err("it does not say how far it goes".to_owned())),
            },
        };
        Ok(Ok((Self::of(&index, fields)?, cursor)))
    }

    fn anew(dir: &Path) -> Result<Self, SearchError> {
        let file_error = |what| move |source| SearchError::Files { what, path: dir.to_owned(), source };
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(file_error("remove")(error)),
            _ => fs::create_dir_all(dir).map_err(file_error("make"))?,
        }
        let (schema, fields) = schema();
        Self::create(dir, schema, fields).map_err(|source| SearchError::Tantivy { what: "be made", source })
    }

    fn create(dir: &Path, schema: Schema, fields: Fields) -> tantivy::Result<Self> {
        let index = tantivy::Index::create(MmapDirectory::open(dir)?, schema, IndexSettings::default())?;
        Self::of(&index, fields)
    }

    fn of(index: &tantivy::Index, fields: Fields) -> tantivy::Result<Self> {
        register(index);
        let options = IndexWriterOptions::builder().memory_budget_per_thread(WRITER_BYTES).num_worker_threads(1).num_merge_threads(1).build();
        let writer: IndexWriter = index.writer_with_options(options)?;
        let mut merges = LogMergePolicy::default();
        merges.set_min_layer_size(SMALL_SEGMENT);
        merges.set_max_docs_before_merge(SEGMENT_DOCS);
        merges.set_del_docs_ratio_before_merge(DELETED_SHARE);
        writer.set_merge_policy(Box::new(merges));
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { fields, reader, writer })
    }
}

fn failed(what: &'static str) -> impl Fn(TantivyError) -> SearchError {
    move |source| SearchError::Tantivy { what, source }
}

impl Index {
    fn new(dir: PathBuf, parts: Parts, cursor: u64) -> Self {
        let Parts { fields, reader, writer } = parts;
        Self { dir, fields, reader: RwLock::new(reader), writer: Mutex::new(Some(writer)), cursor: AtomicU64::new(cursor) }
    }

    fn writer(&self) -> MutexGuard<'_, Option<IndexWriter>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn searcher(&self) -> Searcher {
        self.reader.read().unwrap_or_else(PoisonError::into_inner).searcher()
    }

    /// The log up to here is in the index, committed and searchable.
    #[must_use]
    pub fn cursor(&self) -> Seq {
        Seq(self.cursor.load(Ordering::Acquire))
    }

    /// Puts a record in, in place of what the index has under its id. Found after the next `commit`.
    pub fn add(&self, record: &Record) -> Result<(), SearchError> {
        let guard = self.writer();
        let writer = guard.as_ref().ok_or(SearchError::Closed)?;
        writer.delete_term(self.fields.id_term(record.asked.id.0));
        writer.add_document(self.fields.document(record)).map(|_| ()).map_err(failed("take a record"))
    }

    /// Takes a record out. Not found after the next `commit`.
    pub fn remove(&self, id: RequestId) -> Result<(), SearchError> {
        let guard = self.writer();
        let writer = guard.as_ref().ok_or(SearchError::Closed)?;
        writer.delete_term(self.fields.id_term(id.0));
        Ok(())
    }

    /// Makes all that was added durable and searchable, with the log's position that it stands for. On an error everything
    /// since the last commit is gone from the index: follow the log again from `cursor`.
    pub fn commit(&self, upto: Seq) -> Result<(), SearchError> {
        let mut guard = self.writer();
        let writer = guard.as_mut().ok_or(SearchError::Closed)?;
        let committed = writer.prepare_commit().and_then(|mut prepared| {
            prepared.set_payload(&upto.0.to_string());
            prepared.commit()
        });
        if let Err(source) = committed {
            // Also the way back from a writer whose thread died of a full disk.
            if let Err(error) = writer.rollback() {
                tracing::warn!(dir = %self.dir.display(), %error, "the search index's writer cannot be brought back");
            }
            return Err(SearchError::Tantivy { what: "commit", source });
        }
        self.cursor.store(upto.0, Ordering::Release);
        self.reader.read().unwrap_or_else(PoisonError::into_inner).reload().map_err(failed("be read again"))
    }

    /// Forgets everything, as if the directory had been deleted: for an index that is ahead of the log, or on request.
    /// Searches under way finish on what was there.
    pub fn clear(&self) -> Result<(), SearchError> {
        let mut guard = self.writer();
        drop(guard.take().ok_or(SearchError::Closed)?);
        let parts = Parts::anew(&self.dir)?;
        *self.reader.write().unwrap_or_else(PoisonError::into_inner) = parts.reader;
        self.cursor.store(0, Ordering::Release);
        *guard = Some(parts.writer);
        tracing::info!(dir = %self.dir.display(), reason = %Reason::Cleared, "the search index is built anew");
        Ok(())
    }

    /// Ends writing and leaves the mark that spares the next start the full check. What was not committed is dropped, a
    /// merge under way is given up. Searches still work.
    pub fn close(&self) {
        if let Some(writer) = self.writer().take() {
            let index = writer.index().clone();
            drop(writer);
            health::mark_clean(&self.dir, &index);
        }
    }

    #[must_use]
    pub fn documents(&self) -> u64 {
        self.searcher().num_docs()
    }

    /// The room that the files take on disk.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        let Ok(entries) = fs::read_dir(&self.dir) else { return 0 };
        entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
    }

    /// One page of what the query finds. When nothing has these words, those that differ in one letter are tried.
    pub fn search(&self, query: &Query, page: &PageRequest, deadline: Instant) -> Result<Found, SearchError> {
        let begun = Instant::now();
        let searcher = self.searcher();
        let mut found = self.run(&searcher, query, Spelling::Exact, page, deadline).map_err(failed("search"))?;
        if found.total == 0 && !found.partial && query.may_be_mistyped() {
            found = self.run(&searcher, query, Spelling::Typo, page, deadline).map_err(failed("search"))?;
            found.typo = found.total > 0;
        }
        found.took = begun.elapsed();
        Ok(found)
    }

    fn run(&self, searcher: &Searcher, query: &Query, spelling: Spelling, page: &PageRequest, deadline: Instant) -> tantivy::Result<Found> {
        let plan = plan(query, &self.fields, searcher, spelling, page.order == Order::Best, deadline)?;
        let limit = page.limit.clamp(1, MAX_PAGE);
        let mut top = Top::new(page, limit + 1);
        let whole = walk(searcher, &plan, &mut top)?;
        let total = top.total;
        let mut places = top.finish(searcher)?;
        let more = places.len() > limit;
        places.truncate(limit);
        let next = places.last().copied().filter(|_| more);
        let ids = places.into_iter().map(|place| place.id).collect();
        Ok(Found { ids, total, next, typo: false, partial: !whole, took: Duration::ZERO })
    }

    /// Counts over all hits of the query: by status, by agent and by time, in the days of `now`'s zone.
    /// `typo` as `Found` has it, so that the counts are of the hits that are shown.
    pub fn facets(&self, query: &Query, typo: bool, now: &Now, deadline: Instant) -> Result<Facets, SearchError> {
        let searcher = self.searcher();
        let spelling = if typo { Spelling::Typo } else { Spelling::Exact };
        plan(query, &self.fields, &searcher, spelling, false, deadline)
            .and_then(|plan| facets::facets(&searcher, &plan, now.offset_ms()))
            .map_err(failed("count"))
    }

    /// How each agent that was asked has answered, over all hits of the query; `false` when the deadline came first.
    pub fn figures(&self, query: &Query, deadline: Instant) -> Result<(Vec<AgentFigures>, bool), SearchError> {
        let searcher = self.searcher();
        plan(query, &self.fields, &searcher, Spelling::Exact, false, deadline)
            .and_then(|plan| figures::figures(&searcher, &plan))
            .map_err(failed("count"))
    }
}
