//! Taking exchanges off the record: what the owner names (a conversation, an agent). In small pieces, asks first; each piece
//! is a fact like any other, so the index, the page and every follower of the log learn of it.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Engine;
use crate::core::audit::Kind;
use crate::core::effect::{Erasure, Fact};
use crate::core::ids::{AgentName, ConversationId, Millis, RequestId, Seq};
use crate::store::{Doomed, StoreError, Written};

/// Exchanges taken at once: some milliseconds of the writer's time.
pub(super) const PIECE: usize = 100;
/// Exchanges or rows looked at, at once, for those of an agent.
pub(super) const LOOK: usize = 1_000;

/// What the owner wants gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unwanted {
    Conversation(ConversationId),
    Agent(AgentName),
}

impl Unwanted {
    fn why(&self) -> Arc<str> {
        match self {
            Self::Conversation(id) => format!("conversation {id}").into(),
            Self::Agent(name) => format!("agent {name}").into(),
        }
    }

    /// What the security log and the log of the process may say of it.
    fn kind(&self) -> &'static str {
        match self {
            Self::Conversation(_) => "a conversation",
            Self::Agent(_) => "an agent",
        }
    }
}

/// What was looked at so far.
#[derive(Default)]
struct Tally {
    looked: u64,
    gone: u64,
    open: u64,
    bytes: u64,
}

impl Engine {
    /// Begins to erase, for `who`; with `dry` only counts. How it goes: `progress`.
    pub fn begin_erase(
        self: &Arc<Self>,
        what: Unwanted,
        dry: bool,
        who: &'static str,
    ) -> Result<tokio::task::JoinHandle<Result<String, String>>, String> {
        let at = self.now();
        self.begin_work(move |engine, watch| {
            let mut tally = Tally::default();
            let outcome = engine.erase_all(&what, !dry, at, &mut tally, watch);
            if !dry && (outcome.is_ok() || tally.gone > 0) {
                tracing::info!(what = what.kind(), exchanges = tally.gone, still_open = tally.open, "erased");
                let done = format!("{} exchanges of {} taken off the record", tally.gone, what.kind());
                let _ = Handle::current().block_on(engine.audit(Kind::Erasure, who, None, &done));
            }
            outcome?;
            let open = match tally.open {
                0 => String::new(),
                n => format!("; {n} still open and left: erase again when they have ended"),
            };
            let would = if dry { "would erase" } else { "erased" };
            Ok(format!("{would} {} exchanges of {} ({} bytes){open}", tally.gone, what.why(), tally.bytes))
        })
    }

    fn erase_all(
        &self,
        what: &Unwanted,
        really: bool,
        at: Millis,
        tally: &mut Tally,
        watch: &mut dyn FnMut(&'static str, u64, u64) -> bool,
    ) -> Result<(), String> {
        let of = self.store.exchange_count().map_err(|e| e.to_string())?;
        let mut after = None;
        loop {
            let doomed = self.unwanted(what, after).map_err(|e| e.to_string())?;
            after = doomed.next;
            let (gone, bytes) = (doomed.ids.len() as u64, doomed.bytes);
            tally.open += doomed.open;
            tally.looked += doomed.looked;
            if really {
                self.erase(doomed, at, what.why())?;
            }
            tally.gone += gone;
            tally.bytes += bytes;
            if !watch("erasing", tally.looked, of) {
                return Err(format!("the relay stopped when {} exchanges were erased: do it again", tally.gone));
            }
            if after.is_none() {
                break;
            }
        }
        if really {
            self.erase_presence(what, at)?;
            self.leave_nothing()?;
        }
        Ok(())
    }

    fn unwanted(&self, what: &Unwanted, after: Option<RequestId>) -> Result<Doomed, StoreError> {
        match what {
            Unwanted::Conversation(id) => self.store.of_conversation(*id, after, PIECE),
            Unwanted::Agent(name) => self.store.of_agent(name, after, LOOK),
        }
    }

    fn erase_presence(&self, what: &Unwanted, at: Millis) -> Result<(), String> {
        let Unwanted::Agent(name) = what else { return Ok(()) };
        let mut after = Some(Seq(0));
        while let Some(from) = after {
            let (rows, next) = self.store.presence_of(name, from, 10 * LOOK).map_err(|e| e.to_string())?;
            after = next;
            self.erase(Doomed { rows, ..Doomed::default() }, at, what.why())?;
        }
        Ok(())
    }

    /// Has one piece recorded as erased. Blocks; on a thread of the runtime's that may.
    pub(super) fn erase(&self, doomed: Doomed, at: Millis, why: Arc<str>) -> Result<(), String> {
        let Doomed { ids, ends, rows, .. } = doomed;
        if ids.is_empty() && rows.is_empty() {
            return Ok(());
        }
        for some in ids.chunks(PIECE).chain(ids.is_empty().then_some(&[][..])) {
            let fact = Fact::Erased(Arc::new(Erasure { ids: some.to_vec(), rows: rows.clone(), at, why: why.clone() }));
            self.submit_and_wait(|engine, permit, told| {
                engine.store.submit(permit, vec![fact], move |written| _ = told.send(written));
            })?;
            self.relay().forget(some);
        }
        self.count_lost(&ends)
    }

    /// What an export has not read yet and never will.
    fn count_lost(&self, ends: &[Seq]) -> Result<(), String> {
        for (name, cursor) in self.followers.get().into_iter().flatten() {
            let read = self.store.cursor(cursor).map_err(|e| e.to_string())?.unwrap_or_default();
            let lost = ends.iter().filter(|end| **end > read).count() as u64;
            self.metrics().export(name, |export| export.spans.add("retention", lost));
        }
        Ok(())
    }

    /// No byte of what was erased stays in the journal now, nor in the file after the next start.
    fn leave_nothing(&self) -> Result<(), String> {
        self.submit_and_wait(|engine, permit, told| engine.store.wipe(permit, move |written| _ = told.send(written)))
    }

    fn submit_and_wait(&self, submit: impl FnOnce(&Self, crate::store::Permit, oneshot::Sender<Written>)) -> Result<(), String> {
        let permit = Handle::current().block_on(self.store.reserve()).map_err(|e| e.to_string())?;
        let (told, done) = oneshot::channel();
        submit(self, permit, told);
        match done.blocking_recv() {
            Ok(Written::Durable) => Ok(()),
            _ => Err("the store cannot write at the moment; see the log".to_owned()),
        }
    }
}
