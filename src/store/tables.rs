//! The tables of `bridge.redb` and what each fact changes in them. The log is the truth; every other table is derived
//! from it in the same transaction, so a table can be made anew by reading the log.

use redb::{Key, ReadableDatabase, ReadableTable, TableDefinition, Value, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::record::{self, StoredAgent};
use super::{StoreError, erase, migrate};
use crate::core::audit::Kind;
use crate::core::effect::Fact;
use crate::core::exchange::keep_holder;
use crate::core::ids::{AgentName, RequestId, Seq};

/// The number of this layout. A file with a larger one is not touched.
pub const FORMAT: u64 = 3;

/// Position -> fact (JSON).
pub(super) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
/// Request -> positions of its asked, ended and late facts; 0 for none. Ids ascend with time, so this is also the order of time.
pub(super) const EXCHANGES: TableDefinition<'_, u128, (u64, u64, u64)> = TableDefinition::new("exchanges");
/// (conversation, request): the thread, oldest first.
pub(super) const THREADS: TableDefinition<'_, (u128, u128), ()> = TableDefinition::new("threads");
/// Requests that have not ended, with what a restart must know (JSON).
pub(super) const OPEN: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("open");
/// Answers that their askers have yet to be handed.
pub(super) const OWED: TableDefinition<'_, u128, ()> = TableDefinition::new("owed");
/// (asker, key) -> request.
pub(super) const KEYS: TableDefinition<'_, (&str, &str), u128> = TableDefinition::new("keys");
/// Agent -> (last seen, online).
pub(super) const PRESENCE: TableDefinition<'_, &str, (u64, bool)> = TableDefinition::new("presence");
/// Agent -> credentials (JSON).
pub(super) const AGENTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("agents");
/// Follower -> the position up to which it has everything.
pub(super) const CURSORS: TableDefinition<'_, &str, u64> = TableDefinition::new("cursors");
/// Position -> kind: which rows of the log belong to the security log, refused asks among them.
pub(super) const SECURITY: TableDefinition<'_, u64, &str> = TableDefinition::new("security");
/// Document -> JSON: what the engine keeps beside the log, each written whole.
pub(super) const KEPT: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("kept");
/// (when, why) -> how many exchanges were erased.
pub(super) const ERASED: TableDefinition<'_, (u64, &str), u64> = TableDefinition::new("erased");
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// What a restart must know of an open exchange beyond its question.
#[derive(Serialize, Deserialize, Default, Debug)]
pub(super) struct StoredOpen {
    /// Since when and until when it waits for an absent agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<(u64, u64)>,
    /// The processes that have received it, and at which attempt the last of them did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<String>,
    #[serde(default)]
    pub attempt: u32,
}

impl StoredOpen {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(bytes).map_err(|e| StoreError::Record(e.to_string()))
    }

    fn encode(&self) -> Result<Vec<u8>, StoreError> {
        serde_json::to_vec(self).map_err(|e| StoreError::Record(e.to_string()))
    }
}

/// Does the same with tables of different types.
pub(super) trait Visitor {
    fn table<K: Key + 'static, V: Value + 'static>(&mut self, table: TableDefinition<'static, K, V>) -> Result<(), StoreError>;
}

/// Every table there is: what is made at the start and what a backup copies. One that is not here is in no backup, so a
/// backup of a file with another table is refused.
pub(super) fn visit(visitor: &mut impl Visitor) -> Result<(), StoreError> {
    visitor.table(LOG)?;
    visitor.table(EXCHANGES)?;
    visitor.table(THREADS)?;
    visitor.table(OPEN)?;
    visitor.table(OWED)?;
    visitor.table(KEYS)?;
    visitor.table(PRESENCE)?;
    visitor.table(AGENTS)?;
    visitor.table(CURSORS)?;
    visitor.table(SECURITY)?;
    visitor.table(KEPT)?;
    visitor.table(ERASED)?;
    visitor.table(META)
}

struct Make<'a>(&'a WriteTransaction);

impl Visitor for Make<'_> {
    fn table<K: Key + 'static, V: Value + 'static>(&mut self, table: TableDefinition<'static, K, V>) -> Result<(), StoreError> {
        self.0.open_table(table).map(drop).map_err(StoreError::from)
    }
}

/// Makes every table, and checks or sets the format. Returns the last position of the log.
pub(super) fn prepare(database: &redb::Database) -> Result<Seq, StoreError> {
    let found = format(database)?;
    let mut write = database.begin_write()?;
    // The file is opened quickly after a kill before the first checkpoint too.
    write.set_quick_repair(true);
    visit(&mut Make(&write))?;
    if let Some(found) = found.filter(|found| *found < FORMAT) {
        migrate::from(found, &write)?;
        tracing::info!(from = found, to = FORMAT, "the store was brought to this version's format");
    }
    write.open_table(META)?.insert("format", FORMAT)?;
    let last = write.open_table(LOG)?.last()?.map_or(0, |(seq, _)| seq.value());
    write.commit()?;
    Ok(Seq(last))
}

/// The format of a file, without writing to it; `None` for a new one.
pub(super) fn format(database: &impl ReadableDatabase) -> Result<Option<u64>, StoreError> {
    match database.begin_read()?.open_table(META) {
        Ok(meta) => Ok(meta.get("format")?.map(|v| v.value())),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Writes a run of facts at the positions after `after`.
pub(super) fn apply<'a>(write: &WriteTransaction, mut after: Seq, rows: impl Iterator<Item = (&'a Fact, &'a [u8])>) -> Result<Seq, StoreError> {
    let mut log = write.open_table(LOG)?;
    let mut exchanges = write.open_table(EXCHANGES)?;
    let mut open = write.open_table(OPEN)?;
    let mut threads = write.open_table(THREADS)?;
    for (fact, bytes) in rows {
        after.0 += 1;
        let seq = after.0;
        log.insert(seq, bytes)?;
        match fact {
            Fact::Asked(asked) | Fact::Refused(asked, _) => {
                let refused = matches!(fact, Fact::Refused(..));
                let id = asked.id.as_u128();
                exchanges.insert(id, (seq, if refused { seq } else { 0 }, 0))?;
                threads.insert((asked.conversation.as_u128(), id), ())?;
                if let Fact::Refused(_, end) = fact
                    && let Some(kind) = Kind::of_refusal(end.outcome)
                {
                    write.open_table(SECURITY)?.insert(seq, kind.word())?;
                }
                if !refused {
                    open.insert(id, &b""[..])?;
                }
                if let Some(key) = &asked.key {
                    write.open_table(KEYS)?.insert((asked.from.as_str(), &**key), id)?;
                }
            }
            Fact::Ended { id, .. } => {
                // An end without a beginning: the beginning was lost while the disk refused. The log has the end all the same.
                let _ = set_position(&mut exchanges, *id, |p| p.1 = seq)?;
                open.remove(id.as_u128())?;
            }
            Fact::Late { id, .. } => {
                if !set_position(&mut exchanges, *id, |p| p.2 = seq)? {
                    log.insert(seq, record::NOTHING)?;
                }
            }
            Fact::Owed { id, .. } => {
                if exchanges.get(id.as_u128())?.is_some() {
                    write.open_table(OWED)?.insert(id.as_u128(), ())?;
                }
            }
            Fact::Taken { id, .. } => {
                write.open_table(OWED)?.remove(id.as_u128())?;
            }
            Fact::Erased(erasure) => {
                let mut tables = erase::Tables { log: &mut log, exchanges: &mut exchanges, open: &mut open, threads: &mut threads };
                tables.erase(write, erasure, seq)?;
            }
            Fact::Queued { id, at, expires } => change_open(&mut open, *id, |o| o.queued = Some((at.0, expires.0)))?,
            Fact::Received { id, instance, attempt } => {
                change_open(&mut open, *id, |o| {
                    keep_holder(&mut o.holders, instance.to_string());
                    o.attempt = *attempt;
                })?;
            }
            Fact::Audit(event) => {
                write.open_table(SECURITY)?.insert(seq, event.kind.word())?;
            }
            Fact::Presence { agent, at, online } => {
                write.open_table(PRESENCE)?.insert(agent.as_str(), (at.0, *online))?;
            }
        }
    }
    Ok(after)
}

/// `false` if there is no such exchange.
fn set_position(
    exchanges: &mut redb::Table<'_, u128, (u64, u64, u64)>,
    id: RequestId,
    set: impl Fn(&mut (u64, u64, u64)),
) -> Result<bool, StoreError> {
    let found = exchanges.get(id.as_u128())?.map(|p| p.value());
    let Some(mut positions) = found else { return Ok(false) };
    set(&mut positions);
    exchanges.insert(id.as_u128(), positions)?;
    Ok(true)
}

fn change_open(open: &mut redb::Table<'_, u128, &'static [u8]>, id: RequestId, change: impl Fn(&mut StoredOpen)) -> Result<(), StoreError> {
    let found = open.get(id.as_u128())?.map(|v| StoredOpen::decode(v.value())).transpose()?;
    if let Some(mut stored) = found {
        change(&mut stored);
        open.insert(id.as_u128(), stored.encode()?.as_slice())?;
    }
    Ok(())
}

/// How long a key stands for its question; the core's rule, with a day to spare.
const KEY_LIFE_MS: u128 = 2 * 24 * 3_600_000;

/// Looks at `count` keys after `cursor`, round and round, and removes those whose question is too old to matter: every
/// numbered call leaves one. Returns where to go on.
pub(super) fn forget_keys(write: &WriteTransaction, cursor: &(String, String), count: usize, now_ms: u128) -> Result<(String, String), StoreError> {
    let mut keys = write.open_table(KEYS)?;
    let (mut old, mut last) = (Vec::new(), None);
    for row in keys.range((cursor.0.as_str(), cursor.1.as_str())..)?.take(count) {
        let (key, id) = row?;
        let (asker, key) = key.value();
        let here = (asker.to_owned(), key.to_owned());
        // A UUIDv7 begins with its milliseconds.
        if (id.value() >> 80) + KEY_LIFE_MS < now_ms {
            old.push(here.clone());
        }
        last = Some(here);
    }
    for (asker, key) in &old {
        keys.remove((asker.as_str(), key.as_str()))?;
    }
    // At the end it begins again.
    Ok(last.filter(|here| here != cursor).unwrap_or_default())
}

/// One cursor a kind, which is what stands before the colon: a follower that goes elsewhere replaces the former.
pub(super) fn put_cursor(write: &WriteTransaction, follower: &str, seq: Seq) -> Result<(), StoreError> {
    let mut cursors = write.open_table(CURSORS)?;
    if let Some((kind, _)) = follower.split_once(':') {
        cursors.retain_in(format!("{kind}:").as_str()..format!("{kind};").as_str(), |name, _| name == follower)?;
    }
    cursors.insert(follower, seq.0)?;
    Ok(())
}

pub(super) fn put_agent(write: &WriteTransaction, name: &AgentName, agent: Option<&StoredAgent>) -> Result<(), StoreError> {
    let mut agents = write.open_table(AGENTS)?;
    match agent {
        Some(agent) => {
            let bytes = serde_json::to_vec(agent).map_err(|e| StoreError::Record(e.to_string()))?;
            agents.insert(name.as_str(), bytes.as_slice())?;
        }
        None => {
            agents.remove(name.as_str())?;
        }
    }
    Ok(())
}

pub(super) fn keep(write: &WriteTransaction, what: &str, bytes: &[u8]) -> Result<(), StoreError> {
    write.open_table(KEPT)?.insert(what, bytes)?;
    Ok(())
}
