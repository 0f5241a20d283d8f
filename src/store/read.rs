//! Reads: one exchange, a page of them by time, a thread, the log from a position, what a restart needs. Every read is
//! short: no transaction outlives the call, and every list is bounded by its caller. What cannot be read of a damaged file
//! hides nothing beside it.

use std::sync::Arc;

use redb::{ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata};

use super::record::{StoredAgent, decode, is_end};
use super::tables::{AGENTS, CURSORS, EXCHANGES, KEPT, KEYS, LOG, OPEN, OWED, PRESENCE, SECURITY, StoredOpen, THREADS};
use super::{Store, StoreError};
use crate::core::audit::{Event, Kind};
use crate::core::effect::Fact;
use crate::core::exchange::{Asked, Record, Work};
use crate::core::ids::{AgentName, ConversationId, Millis, RequestId, Seq};
use crate::core::late::Placed;
use crate::core::relay::Restored;

/// Rows looked at in one reading of ends, so that no read transaction is long.
const SCAN: usize = 4_096;

/// An exchange that ended, at the position of its end.
#[derive(Debug)]
pub struct Finished {
    pub seq: Seq,
    pub record: Record,
    pub work: Work,
    /// Which question of its conversation it is, from 1.
    pub turn: u64,
}

/// What ended in a stretch of the log.
#[derive(Debug)]
pub struct Ends {
    pub found: Vec<Finished>,
    /// Everything up to here was looked at.
    pub upto: Seq,
    /// Ends of exchanges that are not kept any more.
    pub gone: Vec<Seq>,
    /// Ends that cannot be read, or not with their questions, and why.
    pub unreadable: Vec<(Seq, String)>,
}

impl Store {
    pub(super) fn read(&self) -> Result<ReadTransaction, StoreError> {
        Ok(self.database()?.begin_read()?)
    }

    /// One exchange, as far as it is on record.
    pub fn record(&self, id: RequestId) -> Result<Option<Record>, StoreError> {
        let read = self.read()?;
        let found = read.open_table(EXCHANGES)?.get(id.as_u128())?.map(|p| p.value());
        let log = read.open_table(LOG)?;
        found.map(|positions| load(&log, positions)).transpose()
    }

    /// The records of these ids, in their order; unknown ones are left out.
    pub fn records(&self, ids: &[RequestId]) -> Result<Vec<Record>, StoreError> {
        let read = self.read()?;
        let (exchanges, log) = (read.open_table(EXCHANGES)?, read.open_table(LOG)?);
        let mut records = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(positions) = exchanges.get(id.as_u128())?.map(|p| p.value()) {
                records.extend(readable(load(&log, positions))?);
            }
        }
        Ok(records)
    }

    /// The newest `count` exchanges asked before `before`, newest first.
    pub fn newest(&self, before: Option<RequestId>, count: usize) -> Result<Vec<Record>, StoreError> {
        newest(&self.read()?, before, count)
    }

    /// The exchanges of a conversation, oldest first, after `after`, at most `count`.
    pub fn thread(&self, conversation: ConversationId, after: Option<RequestId>, count: usize) -> Result<Vec<Record>, StoreError> {
        let read = self.read()?;
        let (threads, exchanges, log) = (read.open_table(THREADS)?, read.open_table(EXCHANGES)?, read.open_table(LOG)?);
        let (c, first) = (conversation.as_u128(), after.map_or(0, |id| id.as_u128().saturating_add(1)));
        let mut records = Vec::new();
        for row in threads.range((c, first)..=(c, u128::MAX))?.take(count) {
            let (_, id) = row?.0.value();
            if let Some(positions) = exchanges.get(id)?.map(|p| p.value()) {
                records.extend(readable(load(&log, positions))?);
            }
        }
        Ok(records)
    }

    /// The last `count` exchanges of a conversation with their places in the log; none if none of them was answered late,
    /// which costs a few looks into a table.
    pub fn with_late(&self, conversation: ConversationId, count: usize) -> Result<Vec<Placed>, StoreError> {
        let read = self.read()?;
        let (threads, exchanges, log) = (read.open_table(THREADS)?, read.open_table(EXCHANGES)?, read.open_table(LOG)?);
        let c = conversation.as_u128();
        let mut places = Vec::new();
        for row in threads.range((c, 0)..=(c, u128::MAX))?.rev().take(count) {
            let (_, id) = row?.0.value();
            places.extend(exchanges.get(id)?.map(|p| p.value()));
        }
        if places.iter().all(|(_, _, late)| *late == 0) {
            return Ok(Vec::new());
        }
        let mut placed = Vec::with_capacity(places.len());
        for place in places {
            placed.extend(readable(load(&log, place))?.map(|record| Placed { record, ended: Seq(place.1), late: Seq(place.2) }));
        }
        Ok(placed)
    }

    /// The question that a conversation began with.
    pub fn beginning(&self, conversation: ConversationId) -> Result<Option<Arc<Asked>>, StoreError> {
        Ok(self.thread(conversation, None, 1)?.pop().map(|r| r.asked))
    }

    /// The question that this asker put under this key.
    pub fn keyed(&self, from: &AgentName, key: &str) -> Result<Option<Arc<Asked>>, StoreError> {
        let id = self.read()?.open_table(KEYS)?.get((from.as_str(), key))?.map(|v| v.value());
        match id {
            Some(id) => Ok(self.record(RequestId::from_u128(id))?.map(|r| r.asked)),
            None => Ok(None),
        }
    }

    /// Facts after `after`, oldest first, of at most `count` rows; and up to where that is.
    pub fn log(&self, after: Seq, count: usize) -> Result<(Vec<(Seq, Fact)>, Seq), StoreError> {
        let log = self.read()?.open_table(LOG)?;
        let (mut facts, mut upto) = (Vec::new(), after);
        for row in log.range(after.0 + 1..)?.take(count) {
            let (seq, bytes) = row?;
            upto = Seq(seq.value());
            facts.extend(readable(decode(bytes.value()))?.map(|fact| (upto, fact)));
        }
        Ok((facts, upto))
    }

    /// What ended after `after`, oldest first: at most `count`, and no more once their texts have so many bytes.
    pub fn ends(&self, after: Seq, count: usize, bytes: usize) -> Result<Ends, StoreError> {
        let read = self.read()?;
        let (exchanges, log, threads) = (read.open_table(EXCHANGES)?, read.open_table(LOG)?, read.open_table(THREADS)?);
        let mut ends = Ends { found: Vec::new(), upto: after, gone: Vec::new(), unreadable: Vec::new() };
        let mut size = 0;
        for row in log.range(after.0 + 1..)?.take(SCAN) {
            let (seq, stored) = row?;
            let seq = Seq(seq.value());
            if is_end(stored.value()) {
                if ends.found.len() >= count || (size >= bytes && !ends.found.is_empty()) {
                    break;
                }
                match finished(seq, stored.value(), &exchanges, &log, &threads) {
                    Ok(Some(end)) => {
                        size += end.record.asked.message.len() + end.record.end.as_ref().map_or(0, |end| end.text.len());
                        ends.found.push(end);
                    }
                    Ok(None) => ends.gone.push(seq),
                    Err(StoreError::Record(why)) => ends.unreadable.push((seq, why)),
                    Err(e) => return Err(e),
                }
            }
            ends.upto = seq;
        }
        Ok(ends)
    }

    /// How many ends stand in the `rows` rows after `after`, and up to where that is. Reads no text.
    pub fn count_ends(&self, after: Seq, rows: usize) -> Result<(u64, Seq), StoreError> {
        let log = self.read()?.open_table(LOG)?;
        let (mut count, mut upto) = (0, after);
        for row in log.range(after.0 + 1..)?.take(rows.min(SCAN)) {
            let (seq, stored) = row?;
            count += u64::from(is_end(stored.value()));
            upto = Seq(seq.value());
        }
        Ok((count, upto))
    }

    /// How far a follower has come; `None` if it never said.
    pub fn cursor(&self, follower: &str) -> Result<Option<Seq>, StoreError> {
        Ok(self.read()?.open_table(CURSORS)?.get(follower)?.map(|v| Seq(v.value())))
    }

    /// All followers that ever kept a cursor.
    pub fn cursors(&self) -> Result<Vec<(String, Seq)>, StoreError> {
        let rows = self.read()?.open_table(CURSORS)?;
        rows.iter()?.map(|row| row.map_err(StoreError::from).map(|(name, seq)| (name.value().to_owned(), Seq(seq.value())))).collect()
    }

    pub fn exchange_count(&self) -> Result<u64, StoreError> {
        Ok(self.read()?.open_table(EXCHANGES)?.len()?)
    }

    /// The exchanges that had not ended, in the order of the log.
    pub fn open_exchanges(&self) -> Result<Vec<Restored>, StoreError> {
        let read = self.read()?;
        let (exchanges, log) = (read.open_table(EXCHANGES)?, read.open_table(LOG)?);
        let mut restored = Vec::new();
        for row in read.open_table(OPEN)?.iter()? {
            let (id, stored) = row?;
            let Some(stored) = readable(StoredOpen::decode(stored.value()))? else { continue };
            if let Some(positions) = exchanges.get(id.value())?.map(|p| p.value())
                && let Some(Record { asked, .. }) = readable(load(&log, positions))?
            {
                let queued = stored.queued.map(|(at, expires)| (Millis(at), Millis(expires)));
                let holders = stored.holders.into_iter().map(Arc::from).collect();
                restored.push((positions.0, Restored { asked, queued, holders, attempt: stored.attempt }));
            }
        }
        restored.sort_by_key(|(seq, _)| *seq);
        Ok(restored.into_iter().map(|(_, one)| one).collect())
    }

    /// The answers that are yet to be handed over, oldest first, with those who asked.
    pub fn owed(&self) -> Result<Vec<(AgentName, RequestId)>, StoreError> {
        let read = self.read()?;
        let (exchanges, log) = (read.open_table(EXCHANGES)?, read.open_table(LOG)?);
        let mut owed = Vec::new();
        for row in read.open_table(OWED)?.iter()? {
            let id = row?.0.value();
            let Some((asked, ..)) = exchanges.get(id)?.map(|p| p.value()) else { continue };
            if let Some(Some(Fact::Asked(asked))) = log.get(asked)?.map(|row| readable(decode(row.value()))).transpose()? {
                owed.push((asked.from.clone(), RequestId::from_u128(id)));
            }
        }
        Ok(owed)
    }

    /// When each agent was last seen, and whether it was connected when the relay ended.
    pub fn presence(&self) -> Result<Vec<(AgentName, Millis, bool)>, StoreError> {
        presence(&self.read()?)
    }

    /// Entries of the security log before a position, newest first.
    pub fn audit(&self, before: Option<Seq>, kind: Option<Kind>, count: usize) -> Result<Vec<(Seq, Event)>, StoreError> {
        let read = self.read()?;
        let (security, log) = (read.open_table(SECURITY)?, read.open_table(LOG)?);
        let mut found = Vec::new();
        for row in security.range(..before.map_or(u64::MAX, |b| b.0))?.rev() {
            let (seq, word) = row?;
            if kind.is_some_and(|k| k.word() != word.value()) {
                continue;
            }
            // A row that is not kept any more leaves its place in the index for a while.
            let Some(fact) = log.get(seq.value())?.map(|b| readable(decode(b.value()))).transpose()?.flatten() else { continue };
            found.extend(entry(fact).map(|event| (Seq(seq.value()), event)));
            if found.len() >= count {
                break;
            }
        }
        Ok(found)
    }

    /// The document of that name; the default if there is none yet.
    pub fn kept<T: serde::de::DeserializeOwned + Default>(&self, what: &str) -> Result<T, StoreError> {
        match self.read()?.open_table(KEPT)?.get(what)? {
            Some(bytes) => serde_json::from_slice(bytes.value()).map_err(|e| StoreError::Record(format!("{what}: {e}"))),
            None => Ok(T::default()),
        }
    }

    pub fn agents(&self) -> Result<Vec<(AgentName, StoredAgent)>, StoreError> {
        agents(&self.read()?)
    }
}

pub(super) fn newest(read: &ReadTransaction, before: Option<RequestId>, count: usize) -> Result<Vec<Record>, StoreError> {
    let (exchanges, log) = (read.open_table(EXCHANGES)?, read.open_table(LOG)?);
    let end = before.map_or(u128::MAX, RequestId::as_u128);
    let mut records = Vec::new();
    for row in exchanges.range(..end)?.rev() {
        records.extend(readable(load(&log, row?.1.value()))?);
        if records.len() >= count {
            break;
        }
    }
    Ok(records)
}

/// `None` for what is damaged: it costs itself, and nothing beside it.
pub(super) fn readable<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Err(StoreError::Record(error)) => {
            tracing::error!(error, "something on record cannot be read and is left out; restore a backup if it matters");
            Ok(None)
        }
        other => other.map(Some),
    }
}

pub(super) fn presence(read: &ReadTransaction) -> Result<Vec<(AgentName, Millis, bool)>, StoreError> {
    let mut all = Vec::new();
    for row in read.open_table(PRESENCE)?.iter()? {
        let (name, seen) = row?;
        let (at, online) = seen.value();
        all.extend(AgentName::parse(name.value()).map(|name| (name, Millis(at), online)));
    }
    Ok(all)
}

pub(super) fn agents(read: &ReadTransaction) -> Result<Vec<(AgentName, StoredAgent)>, StoreError> {
    let mut all = Vec::new();
    for row in read.open_table(AGENTS)?.iter()? {
        let (name, bytes) = row?;
        let agent = serde_json::from_slice(bytes.value()).map_err(|e| StoreError::Record(e.to_string()))?;
        all.extend(AgentName::parse(name.value()).map(|name| (name, agent)));
    }
    Ok(all)
}

/// A fact as the security log shows it.
fn entry(fact: Fact) -> Option<Event> {
    match fact {
        Fact::Audit(event) => Some((*event).clone()),
        Fact::Refused(asked, end) => {
            let what = format!("{}: {} -> {}: {}", end.outcome.word(), asked.from, asked.to, end.text);
            Kind::of_refusal(end.outcome).map(|kind| Event { request: Some(asked.id), ..Event::new(end.at, kind, asked.from.as_str(), "", &what) })
        }
        _ => None,
    }
}

/// The exchange that this row ends, if it is kept.
fn finished(
    seq: Seq,
    row: &[u8],
    exchanges: &impl ReadableTable<u128, (u64, u64, u64)>,
    log: &impl ReadableTable<u64, &'static [u8]>,
    threads: &impl ReadableTable<(u128, u128), ()>,
) -> Result<Option<Finished>, StoreError> {
    let (id, work) = match decode(row)? {
        Fact::Ended { id, work, .. } => (id, work),
        other => (other.request().unwrap_or(RequestId::from_u128(0)), Work::default()),
    };
    let Some(positions) = exchanges.get(id.as_u128())?.map(|p| p.value()) else { return Ok(None) };
    let record = load(log, positions)?;
    let conversation = record.asked.conversation.as_u128();
    let turn = threads.range((conversation, 0)..=(conversation, id.as_u128()))?.count() as u64;
    Ok(Some(Finished { seq, record, work, turn }))
}

fn load(log: &impl ReadableTable<u64, &'static [u8]>, (asked, ended, late): (u64, u64, u64)) -> Result<Record, StoreError> {
    let fact =
        |seq: u64| -> Result<Option<Fact>, StoreError> { if seq == 0 { Ok(None) } else { log.get(seq)?.map(|b| decode(b.value())).transpose() } };
    let (asked, mut end, refused) = match fact(asked)? {
        Some(Fact::Asked(asked)) => (asked, None, false),
        Some(Fact::Refused(asked, end)) => (asked, Some(end), true),
        _ => return Err(StoreError::Record(format!("position {asked} of the log holds no question"))),
    };
    if let Some(Fact::Ended { end: ended, .. }) = fact(ended)? {
        end = Some(ended);
    }
    let late = match fact(late)? {
        Some(Fact::Late { late, .. }) => Some(late),
        _ => None,
    };
    Ok(Record { asked, end, late, refused })
}
