//! Taking exchanges off the record: which there are to take, oldest first, of a conversation, of an agent; and what the
//! fact `Erased` removes from the tables. Every look and every removal is bounded by its caller. What is open stays.

use std::collections::HashSet;

use redb::{Key, ReadTransaction, ReadableTable, ReadableTableMetadata, Table, TableDefinition, Value, WriteTransaction};

use super::read::readable;
use super::record::{NOTHING, decode, is_beside};
use super::tables::{ERASED, EXCHANGES, KEYS, LOG, OWED, SECURITY, THREADS, Visitor, visit};
use super::{Store, StoreError};
use crate::core::audit::Kind;
use crate::core::effect::{Erasure, Fact};
use crate::core::ids::{AgentName, ConversationId, Millis, RequestId, Seq};
use crate::core::outcome::Outcome;

type Positions = (u64, u64, u64);

/// Rows of the log looked at for what stands beside the exchanges of one piece.
const BESIDE: usize = 4_096;

/// Which are old enough to go.
#[derive(Clone, Copy)]
pub struct Old<'a> {
    /// Asked before this.
    pub before: Millis,
    /// Ended so; `None`: however.
    pub only: Option<&'a [Outcome]>,
    /// Ended up to here in the log.
    pub floor: Seq,
    /// Comings and goings that stand between them go when they are older than this.
    pub beside: Millis,
}

/// A piece of an erasure.
#[derive(Default, Debug)]
pub struct Doomed {
    pub ids: Vec<RequestId>,
    /// Where in the log each of them ended.
    pub ends: Vec<Seq>,
    /// What stands beside them in the log.
    pub rows: Vec<Seq>,
    /// Of the texts and what is around them.
    pub bytes: u64,
    /// Left because they have not ended.
    pub open: u64,
    /// Left because somebody who follows the log has not come so far.
    pub unread: u64,
    pub looked: u64,
    /// Where to go on; `None` when all were looked at.
    pub next: Option<RequestId>,
}

impl Store {
    /// The oldest exchanges after `after` that are old enough.
    pub fn oldest(&self, after: Option<RequestId>, old: Old<'_>, count: usize) -> Result<Doomed, StoreError> {
        let read = self.read()?;
        let exchanges = read.open_table(EXCHANGES)?;
        let first = after.map_or(0, |id| id.as_u128().saturating_add(1));
        // A UUIDv7 begins with its milliseconds.
        let end = u128::from(old.before.0.min((1 << 48) - 1)) << 80;
        let mut pick = Pick::new(&read, old.floor)?;
        for row in exchanges.range(first..end.max(first))?.take(4 * count) {
            let (id, positions) = row?;
            let (id, positions) = (id.value(), positions.value());
            if old.only.map_or(Ok(true), |outcomes| pick.ended_as(positions.1, outcomes))? {
                pick.take(id, positions)?;
            }
            pick.last = id;
            if pick.doomed.ids.len() >= count {
                return pick.finish(Some(old.beside), true);
            }
        }
        let looked = exchanges.range(first..end.max(first))?.take(4 * count + 1).count();
        pick.finish(Some(old.beside), looked > 4 * count)
    }

    pub fn of_conversation(&self, conversation: ConversationId, after: Option<RequestId>, count: usize) -> Result<Doomed, StoreError> {
        let read = self.read()?;
        let (threads, exchanges) = (read.open_table(THREADS)?, read.open_table(EXCHANGES)?);
        let (c, first) = (conversation.as_u128(), after.map_or(0, |id| id.as_u128().saturating_add(1)));
        let mut pick = Pick::new(&read, Seq(u64::MAX))?;
        for row in threads.range((c, first)..=(c, u128::MAX))?.take(count) {
            let (_, id) = row?.0.value();
            pick.doomed.looked += 1;
            if let Some(positions) = exchanges.get(id)?.map(|p| p.value()) {
                pick.take(id, positions)?;
            }
        }
        let more = pick.doomed.looked == count as u64;
        pick.finish(None, more)
    }

    /// Of the `count` exchanges after `after` those that this agent asked or was asked.
    pub fn of_agent(&self, agent: &AgentName, after: Option<RequestId>, count: usize) -> Result<Doomed, StoreError> {
        let read = self.read()?;
        let (exchanges, log) = (read.open_table(EXCHANGES)?, read.open_table(LOG)?);
        let first = after.map_or(0, |id| id.as_u128().saturating_add(1));
        let mut pick = Pick::new(&read, Seq(u64::MAX))?;
        for row in exchanges.range(first..)?.take(count) {
            let (id, positions) = row?;
            pick.doomed.looked += 1;
            pick.last = id.value();
            let asked = log.get(positions.value().0)?.map(|bytes| readable(decode(bytes.value()))).transpose()?;
            if let Some(Some(Fact::Asked(asked) | Fact::Refused(asked, _))) = asked
                && asked.is_party(agent)
            {
                pick.take(id.value(), positions.value())?;
            }
        }
        let more = pick.doomed.looked == count as u64;
        pick.finish(None, more)
    }

    /// The comings and goings of an agent among the `count` rows after `after`; and where to go on.
    pub fn presence_of(&self, agent: &AgentName, after: Seq, count: usize) -> Result<(Vec<Seq>, Option<Seq>), StoreError> {
        let log = self.read()?.open_table(LOG)?;
        let (mut rows, mut last, mut looked) = (Vec::new(), after, 0);
        for row in log.range(after.0 + 1..)?.take(count) {
            let (seq, bytes) = row?;
            (last, looked) = (Seq(seq.value()), looked + 1);
            if is_beside(bytes.value())
                && let Some(Fact::Presence { agent: one, .. }) = readable(decode(bytes.value()))?
                && one == *agent
            {
                rows.push(last);
            }
        }
        Ok((rows, (looked == count).then_some(last)))
    }

    /// The position up to which refusals of the doors are more than the newest `keep`.
    pub fn surplus_refusals(&self, keep: usize) -> Result<Seq, StoreError> {
        let security = self.read()?.open_table(SECURITY)?;
        let mut left = keep;
        for row in security.iter()?.rev() {
            let (seq, word) = row?;
            if !Kind::parse(word.value()).is_some_and(Kind::is_refusal) {
                continue;
            }
            if left == 0 {
                return Ok(Seq(seq.value()));
            }
            left -= 1;
        }
        Ok(Seq(0))
    }

    /// Of the `count` entries of the security log after `after`, those that are older than `before`, or refusals up to
    /// `surplus`; and where to go on. Refused asks go with their exchanges.
    pub fn old_entries(&self, after: Seq, before: Millis, surplus: Seq, count: usize) -> Result<(Vec<Seq>, Option<Seq>), StoreError> {
        let read = self.read()?;
        let (security, log) = (read.open_table(SECURITY)?, read.open_table(LOG)?);
        let (mut rows, mut looked, mut last) = (Vec::new(), 0, after);
        for row in security.range(after.0 + 1..)?.take(count) {
            let (seq, word) = row?;
            (last, looked) = (Seq(seq.value()), looked + 1);
            let kind = Kind::parse(word.value());
            if kind.is_some_and(Kind::is_ask) {
                continue;
            }
            let old = match log.get(last.0)?.map(|bytes| readable(decode(bytes.value()))).transpose()? {
                Some(Some(Fact::Audit(event))) => event.at < before,
                Some(_) => false,
                None => true,
            };
            if old || (last <= surplus && kind.is_some_and(Kind::is_refusal)) {
                rows.push(last);
            } else if last > surplus {
                // The next are younger.
                return Ok((rows, None));
            }
        }
        Ok((rows, (looked == count).then_some(last)))
    }

    /// The bytes that everything on record takes, free pages of the file not counted. Reads every page.
    pub fn used_bytes(&self) -> Result<u64, StoreError> {
        let mut used = Used { read: &self.read()?, bytes: 0 };
        visit(&mut used)?;
        Ok(used.bytes)
    }

    /// What was ever erased: when, why, how many exchanges. Oldest first.
    pub fn erasures(&self) -> Result<Vec<(Millis, String, u64)>, StoreError> {
        let table = self.read()?.open_table(ERASED)?;
        let rows = table.iter()?.map(|row| {
            let (key, count) = row?;
            let (at, why) = key.value();
            Ok((Millis(at), why.to_owned(), count.value()))
        });
        rows.collect()
    }
}

struct Used<'a> {
    read: &'a ReadTransaction,
    bytes: u64,
}

impl Visitor for Used<'_> {
    fn table<K: Key + 'static, V: Value + 'static>(&mut self, table: TableDefinition<'static, K, V>) -> Result<(), StoreError> {
        let stats = self.read.open_table(table)?.stats()?;
        self.bytes += stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes();
        Ok(())
    }
}

struct Pick {
    log: redb::ReadOnlyTable<u64, &'static [u8]>,
    floor: Seq,
    doomed: Doomed,
    last: u128,
    /// The stretch of the log from the first question to the last word.
    span: (u64, u64),
}

impl Pick {
    fn new(read: &ReadTransaction, floor: Seq) -> Result<Self, StoreError> {
        Ok(Self { log: read.open_table(LOG)?, floor, doomed: Doomed::default(), last: 0, span: (u64::MAX, 0) })
    }

    /// What is open may yet end so.
    fn ended_as(&self, ended: u64, outcomes: &[Outcome]) -> Result<bool, StoreError> {
        let row = if ended == 0 { None } else { self.log.get(ended)? };
        Ok(match row.map(|row| readable(decode(row.value()))).transpose()? {
            Some(Some(Fact::Ended { end, .. } | Fact::Refused(_, end))) => outcomes.contains(&end.outcome),
            Some(None) => false,
            _ => true,
        })
    }

    fn take(&mut self, id: u128, (asked, ended, late): Positions) -> Result<(), StoreError> {
        self.last = id;
        if ended == 0 {
            self.doomed.open += 1;
            return Ok(());
        }
        if ended.max(late) > self.floor.0 {
            self.doomed.unread += 1;
            return Ok(());
        }
        self.doomed.ids.push(RequestId::from_u128(id));
        self.doomed.ends.push(Seq(ended));
        self.span = (self.span.0.min(asked), self.span.1.max(ended).max(late));
        for position in [asked, if ended == asked { 0 } else { ended }, late] {
            if position != 0 {
                self.doomed.bytes += self.log.get(position)?.map_or(0, |row| row.value().len() as u64);
            }
        }
        Ok(())
    }

    /// With what stands beside them: arrivals and queueing of these exchanges, and what else is older than `before`.
    fn finish(mut self, before: Option<Millis>, more: bool) -> Result<Doomed, StoreError> {
        let ids: HashSet<RequestId> = self.doomed.ids.iter().copied().collect();
        if !ids.is_empty() {
            for row in self.log.range(self.span.0..=self.span.1)?.take(BESIDE) {
                let (seq, bytes) = row?;
                if !is_beside(bytes.value()) || seq.value() > self.floor.0 {
                    continue;
                }
                let Some(fact) = readable(decode(bytes.value()))? else { continue };
                let at = match &fact {
                    Fact::Presence { at, .. } | Fact::Taken { at, .. } => Some(*at),
                    Fact::Erased(erasure) => Some(erasure.at),
                    _ => None,
                };
                let old = at.zip(before).is_some_and(|(at, before)| at < before);
                if old || fact.request().is_some_and(|id| ids.contains(&id)) {
                    self.doomed.rows.push(Seq(seq.value()));
                }
            }
        }
        self.doomed.next = more.then(|| RequestId::from_u128(self.last));
        Ok(self.doomed)
    }
}

/// The tables that a fact `Erased` empties.
pub(super) struct Tables<'a, 't> {
    pub log: &'a mut Table<'t, u64, &'static [u8]>,
    pub exchanges: &'a mut Table<'t, u128, Positions>,
    pub open: &'a mut Table<'t, u128, &'static [u8]>,
    pub threads: &'a mut Table<'t, (u128, u128), ()>,
}

impl Tables<'_, '_> {
    /// `seq` is the fact's own position: nothing after it is touched.
    pub(super) fn erase(&mut self, write: &WriteTransaction, erasure: &Erasure, seq: u64) -> Result<(), StoreError> {
        let (mut gone, mut security, mut owed) = (0, write.open_table(SECURITY)?, write.open_table(OWED)?);
        for id in &erasure.ids {
            let id = id.as_u128();
            let Some((asked, ended, late)) = self.exchanges.remove(id)?.map(|p| p.value()) else { continue };
            gone += 1;
            self.open.remove(id)?;
            owed.remove(id)?;
            let question = self.log.remove(asked)?.map(|row| decode(row.value()));
            for position in [ended, late] {
                self.log.remove(position)?;
            }
            security.remove(asked)?;
            // One that cannot be read leaves a line in a thread that leads nowhere, which readers pass over.
            if let Some(Ok(Fact::Asked(asked) | Fact::Refused(asked, _))) = question {
                self.threads.remove((asked.conversation.as_u128(), id))?;
                if let Some(key) = &asked.key {
                    let mut keys = write.open_table(KEYS)?;
                    let of_this = keys.get((asked.from.as_str(), &**key))?.is_some_and(|found| found.value() == id);
                    if of_this {
                        keys.remove((asked.from.as_str(), &**key))?;
                    }
                }
            }
        }
        for row in erasure.rows.iter().filter(|row| row.0 < seq) {
            self.log.remove(row.0)?;
            security.remove(row.0)?;
        }
        if erasure.ids.is_empty() {
            // Else what is removed would leave its numbers for ever.
            self.log.insert(seq, NOTHING)?;
        }
        if gone > 0 {
            let mut erased = write.open_table(ERASED)?;
            let before = erased.get((erasure.at.0, &*erasure.why))?.map_or(0, |n| n.value());
            erased.insert((erasure.at.0, &*erasure.why), before + gone)?;
        }
        Ok(())
    }
}
