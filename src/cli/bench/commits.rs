//! The way to the disk alone: one fact handed to the relay's store until it is durable, beside one append and fdatasync of as
//! many bytes. In this process, without doors and rules.

use super::floor_log::FloorLog;
use super::load::{self, Figures, Tally, Window};
use super::past::Past;
use super::progress;
use super::report::{Beside, Compared};
use super::server::Kind;
use crate::core::effect::Fact;
use crate::core::exchange::Asked;
use crate::core::ids::{ConversationId, Millis, RequestId};
use crate::store::{Store, Written};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// So many wait for the disk at the same time.
const AT_ONCE: [usize; 4] = [1, 16, 64, 256];
/// Names, ids and times of a fact, as far as the floor's record has them too.
const AROUND: usize = 200;

/// Where facts go.
struct Disks {
    store: Store,
    floor: FloorLog,
    /// A question and its answer, a kilobyte together; each exchange is this one under an id of its own.
    question: Asked,
    answer: Fact,
    ids: AtomicU64,
}

/// Every level in turn: floor, relay, and again.
pub(super) async fn measure(dir: &Path, rounds: usize, length: Duration) -> Result<Vec<Compared>, String> {
    let store = Store::open(&dir.join("commits")).map_err(|e| e.to_string())?;
    let [Fact::Asked(question), answer] = Past::new(Millis(0), 1).exchange() else { return Err("no question to write".to_owned()) };
    let floor = FloorLog::open(&dir.join("commits-floor"))?;
    let disks = Arc::new(Disks { store, floor, question: (*question).clone(), answer, ids: AtomicU64::new(1) });
    let mut levels = Vec::new();
    for at_once in AT_ONCE {
        progress(&format!("{at_once} commits at once"));
        let mut all: Beside<Vec<Figures>> = Beside::default();
        for _ in 0..rounds {
            for kind in [Kind::DurableFloor, Kind::Relay] {
                all.of(kind).get_or_insert_default().push(round(&disks, kind, at_once, length).await?);
            }
        }
        levels.push(Compared::new(at_once, None, all, Kind::DurableFloor));
    }
    tokio::task::spawn_blocking(move || drop(disks)).await.map_err(|e| e.to_string())?;
    Ok(levels)
}

async fn round(disks: &Arc<Disks>, kind: Kind, at_once: usize, length: Duration) -> Result<Figures, String> {
    let window = Window::starting_in(length / 5, length);
    let mut writers = JoinSet::new();
    for _ in 0..at_once {
        writers.spawn(writer(disks.clone(), kind, window));
    }
    Ok(load::collected(writers).await?.figures(window))
}

async fn writer(disks: Arc<Disks>, kind: Kind, window: Window) -> Result<Tally, String> {
    let mut tally = Tally::default();
    loop {
        for fact in disks.exchange() {
            let began = Instant::now();
            disks.commit(kind, fact).await?;
            window.count(&mut tally, began, Instant::now());
        }
        if Instant::now() >= window.until {
            return Ok(tally);
        }
    }
}

impl Disks {
    fn exchange(&self) -> [Fact; 2] {
        let n = self.ids.fetch_add(1, Ordering::Relaxed).into();
        let id = RequestId::from_u128(n);
        let question = Asked { id, conversation: ConversationId::from_u128(n), begins: true, ..self.question.clone() };
        let mut answer = self.answer.clone();
        if let Fact::Ended { id: of, .. } = &mut answer {
            *of = id;
        }
        [Fact::Asked(Arc::new(question)), answer]
    }

    /// Returns when it is on the disk.
    async fn commit(&self, kind: Kind, fact: Fact) -> Result<(), String> {
        if kind == Kind::DurableFloor {
            let text = match &fact {
                Fact::Ended { end, .. } => &end.text,
                _ => &self.question.message,
            };
            return self.floor.append(vec![b'.'; AROUND + text.len()]).await;
        }
        let permit = self.store.reserve().await.map_err(|e| e.to_string())?;
        let (told, durable) = tokio::sync::oneshot::channel();
        self.store.submit(permit, vec![fact], move |written| _ = told.send(written));
        match durable.await {
            Ok(Written::Durable) => Ok(()),
            _ => Err("the store did not write".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_level_has_its_figures_and_everything_is_in_the_store() {
        let dir = Scratch::new(&std::env::temp_dir()).unwrap();
        let levels = measure(dir.path(), 1, Duration::from_millis(30)).await.unwrap();
        assert_eq!(levels.iter().map(|l| l.at_once).collect::<Vec<_>>(), AT_ONCE);
        for level in &levels {
            let [floor, relay] = [&level.median.durable_floor, &level.median.relay].map(|f| f.unwrap());
            // A disk that takes longer than the window has none.
            assert!(floor.p50_ms <= floor.p99_ms && relay.p50_ms <= relay.p99_ms, "{}", level.at_once);
        }
        let store = Store::open(&dir.path().join("commits")).unwrap();
        assert!(store.exchange_count().unwrap() >= AT_ONCE.iter().sum::<usize>() as u64);
        assert!(store.open_exchanges().unwrap().is_empty(), "each question has its end");
    }
}
