//! The security log as it is written: what was done is recorded at once; what was refused is counted, so that a flood of
//! wrong tokens costs a row a minute, rule and caller, of a bounded number of them. Each row is a log line too.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::Engine;
use super::caller::network;
use crate::core::audit::{Event, Kind};
use crate::core::effect::Fact;
use crate::core::ids::{AgentName, Millis, RequestId, Seq};
use crate::core::outcome::Refusal;
use crate::store::{StoreError, Written};

/// What is alike within this time is one row.
fn window_ms(kind: Kind) -> u64 {
    // A command of this machine may borrow a token every few seconds, all day.
    if kind == Kind::Token { 3_600_000 } else { 60_000 }
}

/// Callers and rules told apart at once: of those with a name, and of strangers, so that these never crowd out those. Of what
/// is beyond, it is said that the addresses are many; a name is kept, for there are only so many.
const MAX_WINDOWS: usize = 64;
const MANY: &str = "many addresses";

#[derive(Default)]
pub struct Audit {
    refused: Mutex<Refused>,
    wake: Notify,
}

#[derive(Default)]
struct Refused {
    windows: HashMap<Alike, Window>,
    /// The first of each, to be written at once.
    first: Vec<Event>,
}

/// What is counted together.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Alike {
    kind: Kind,
    /// That was broken.
    rule: &'static str,
    /// Empty for strangers.
    who: Arc<str>,
    /// The caller's address or network; empty for what came over none.
    from: Arc<str>,
}

struct Window {
    began: Millis,
    /// Since the row before.
    count: u32,
    last: Event,
}

impl Refused {
    /// Whether it is to be written at once.
    fn add(&mut self, rule: &'static str, address: Option<IpAddr>, mut event: Event) -> bool {
        let from = address.map(network).unwrap_or_default().into();
        let mut alike = Alike { kind: event.kind, rule, who: event.who.clone(), from };
        if address.is_some() && !self.windows.contains_key(&alike) && self.is_full(event.who.is_empty()) {
            (alike.from, event.address) = (MANY.into(), MANY.into());
        }
        match self.windows.get_mut(&alike) {
            Some(window) => {
                if window.count > 0 && window.last.address != event.address {
                    event.address = alike.from;
                }
                window.count = window.count.saturating_add(1);
                window.last = event;
                false
            }
            None => {
                self.windows.insert(alike, Window { began: event.at, count: 0, last: event.clone() });
                self.first.push(event);
                true
            }
        }
    }

    fn is_full(&self, strangers: bool) -> bool {
        self.windows.keys().filter(|alike| alike.who.is_empty() == strangers).count() >= MAX_WINDOWS
    }

    /// What is to be written now. `all`: of times that are not over too.
    fn take(&mut self, now: Millis, all: bool) -> Vec<Event> {
        let mut due = std::mem::take(&mut self.first);
        self.windows.retain(|alike, window| {
            if !all && now.since(window.began) < window_ms(alike.kind) {
                return true;
            }
            if window.count == 0 {
                return false;
            }
            due.push(Event { at: now, times: window.count, ..window.last.clone() });
            (window.began, window.count) = (now, 0);
            true
        });
        due
    }

    fn next(&self) -> Option<Millis> {
        self.windows.iter().map(|(alike, w)| w.began.plus(window_ms(alike.kind))).min()
    }
}

impl Engine {
    /// Puts on record what somebody did: `who` did `what`. Never a token in it. On disk when this returns, or else said so.
    pub async fn audit(&self, kind: Kind, who: &str, address: Option<IpAddr>, what: &str) -> Result<(), StoreError> {
        let address = address.map(|a| a.to_string()).unwrap_or_default();
        self.write_audit(vec![Event::new(self.now(), kind, who, &address, what)]).await
    }

    /// Notes what can come again and again, like a refusal by a rule. Returns at once; written soon, the first of its kind,
    /// rule, caller and address alone, what follows counted by the minute, or by the hour.
    pub fn audit_counted(&self, kind: Kind, rule: &'static str, who: &str, address: Option<IpAddr>, what: &str) {
        let text = address.map(|a| a.to_string()).unwrap_or_default();
        self.count(rule, address, Event::new(self.now(), kind, who, &text, what));
    }

    /// A line for an ask that was refused by policy or as a loop, counted in the same way. It stands on record as an exchange.
    pub(super) fn audit_ask(&self, id: RequestId, from: &AgentName, to: &str, refusal: &Refusal) {
        let outcome = refusal.outcome();
        let Some(kind) = Kind::of_refusal(outcome) else { return };
        let event = Event::new(self.now(), kind, from.as_str(), "", &format!("to {to:.64}: {}: {refusal}", outcome.word()));
        self.count(outcome.word(), None, Event { request: Some(id), ..event });
    }

    fn count(&self, rule: &'static str, address: Option<IpAddr>, event: Event) {
        if self.audit.refused.lock().unwrap_or_else(PoisonError::into_inner).add(rule, address, event) {
            self.audit.wake.notify_one();
        }
    }

    /// Writes what was refused until the relay stops.
    pub(super) async fn keep_audit(self: Arc<Self>) {
        loop {
            let stopping = self.stopping.is_cancelled();
            let (due, next) = {
                let mut refused = self.audit.refused.lock().unwrap_or_else(PoisonError::into_inner);
                (refused.take(self.now(), stopping), refused.next())
            };
            if !due.is_empty() && self.write_audit(due).await.is_err() {
                tracing::debug!("entries of the security log wait for the disk");
            }
            if stopping {
                return;
            }
            let pause = next.map_or(Duration::from_secs(3_600), |at| Duration::from_millis(at.since(self.now()).max(10)));
            tokio::select! {
                () = self.audit.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
                () = self.stopping.cancelled() => {}
            }
        }
    }

    pub(super) async fn write_audit(&self, events: Vec<Event>) -> Result<(), StoreError> {
        for Event { kind, who, address, what, times, request, .. } in &events {
            let (kind, request) = (kind.word(), request.map(|r| r.to_string()).unwrap_or_default());
            tracing::info!(kind, %who, %address, %what, times, %request, "security");
        }
        let facts: Vec<_> = events.into_iter().filter(|e| !e.kind.is_ask()).map(|e| Fact::Audit(Arc::new(e))).collect();
        if facts.is_empty() {
            return Ok(());
        }
        let permit = self.store.reserve().await?;
        let (told, done) = tokio::sync::oneshot::channel();
        self.store.submit(permit, facts, move |written| {
            let _ = told.send(written);
        });
        if done.await == Ok(Written::Durable) { Ok(()) } else { Err(StoreError::Down) }
    }

    /// The security log before a position, newest first, refused asks among it; of one kind if one is given.
    pub async fn audit_log(self: &Arc<Self>, before: Option<Seq>, kind: Option<Kind>, count: usize) -> Result<Vec<(Seq, Event)>, StoreError> {
        self.read(move |store| store.audit(before, kind, count)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(at: u64, address: &str) -> Event {
        Event::new(Millis(at), Kind::RefusedAgent, "", address, "wrong token")
    }

    fn add(refused: &mut Refused, rule: &'static str, event: Event) -> bool {
        refused.add(rule, event.address.parse().ok(), event)
    }

    #[test]
    fn the_first_refusal_is_written_at_once_and_the_next_are_counted_by_the_minute() {
        let mut refused = Refused::default();
        assert!(add(&mut refused, "", refusal(1_000, "1.2.3.4")));
        assert_eq!(refused.take(Millis(1_000), false), [refusal(1_000, "1.2.3.4")]);
        for at in 0..5_000 {
            assert!(!add(&mut refused, "", refusal(2_000 + at, "1.2.3.4")));
        }
        assert!(refused.take(Millis(60_999), false).is_empty());
        assert_eq!(refused.next(), Some(Millis(61_000)));
        let rows = refused.take(Millis(61_000), false);
        assert_eq!(rows.iter().map(|r| (r.times, r.at, &*r.address)).collect::<Vec<_>>(), [(5_000, Millis(61_000), "1.2.3.4")]);
        assert!(refused.take(Millis(121_000), false).is_empty() && refused.windows.is_empty());
    }

    #[test]
    fn a_flood_from_everywhere_takes_a_bounded_number_of_rows() {
        let mut refused = Refused::default();
        for n in 0..100_000 {
            add(&mut refused, ["one rule", "another"][n % 2], refusal(5, &format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255)));
        }
        assert_eq!(refused.windows.len(), MAX_WINDOWS + 2);
        let rows = refused.take(Millis(10), true);
        assert_eq!(rows.iter().map(|r| u64::from(r.times)).sum::<u64>(), 100_000);
        assert_eq!(rows.len(), MAX_WINDOWS + 4);
    }

    #[test]
    fn an_ipv6_network_is_one_caller_and_takes_one_place() {
        let mut refused = Refused::default();
        let mut first = 0;
        for n in 1..=1_000 {
            first += usize::from(add(&mut refused, "", refusal(5, &format!("2001:db8::{n:x}"))));
        }
        assert!(add(&mut refused, "", refusal(5, "203.0.113.1")));
        assert_eq!((first, refused.windows.len()), (1, 2));
        let rows = refused.take(Millis(6), true);
        let told: Vec<_> = rows.iter().map(|r| (&*r.address, r.times)).collect();
        assert_eq!(told, [("2001:db8::1", 1), ("203.0.113.1", 1), ("2001:db8::/64", 999)]);
    }

    #[test]
    fn strangers_never_crowd_out_who_has_a_name() {
        let mut refused = Refused::default();
        for n in 0..1_000 {
            add(&mut refused, "", refusal(5, &format!("10.0.{}.{}", n >> 8, n & 255)));
        }
        refused.take(Millis(5), false);
        let by = |who: &str, address: &str| Event::new(Millis(6), Kind::RefusedRequest, who, address, "too much");
        let told =
            |refused: &mut Refused| refused.take(Millis(6), false).iter().map(|r| (r.who.to_string(), r.address.to_string())).collect::<Vec<_>>();
        assert!(add(&mut refused, "", by("alice", "10.9.9.9")));
        assert_eq!(told(&mut refused), [("alice".to_owned(), "10.9.9.9".to_owned())]);
        for n in 0..MAX_WINDOWS {
            refused.add("lent", None, Event::new(Millis(6), Kind::Token, &format!("command line as bot{n}"), "", "lent"));
        }
        assert_eq!(told(&mut refused).len(), MAX_WINDOWS);
        assert!(add(&mut refused, "", by("bob", "10.9.9.9")));
        assert_eq!(told(&mut refused), [("bob".to_owned(), MANY.to_owned())], "the name is kept");
        assert!(!add(&mut refused, "", by("bob", "10.9.9.8")));
        assert!(add(&mut refused, "another rule", by("bob", "10.9.9.8")));
    }

    #[test]
    fn tokens_that_are_lent_again_and_again_are_counted_by_the_hour() {
        let mut counted = Refused::default();
        let lent = |at: u64| Event::new(Millis(at), Kind::Token, "command line as alice", "", "lent");
        assert!(counted.add("lent", None, lent(0)) && !counted.add("lent", None, lent(60_000)) && !counted.add("lent", None, lent(3_599_000)));
        assert_eq!(counted.take(Millis(3_599_999), false), [lent(0)]);
        let rows = counted.take(Millis(3_600_000), false);
        assert_eq!(rows.iter().map(|r| (r.times, &*r.who)).collect::<Vec<_>>(), [(2, "command line as alice")]);
    }

    #[test]
    fn each_rule_and_each_caller_has_a_row_of_its_own() {
        let mut refused = Refused::default();
        let by = |who: &str| Event::new(Millis(5), Kind::RefusedRequest, who, "1.2.3.4", "too much");
        for (rule, who) in [("a", "x"), ("b", "x"), ("a", "y"), ("a", "x")] {
            add(&mut refused, rule, by(who));
        }
        assert_eq!(refused.take(Millis(6), true).iter().map(|r| (&*r.who, r.times)).collect::<Vec<_>>(), [("x", 1), ("x", 1), ("y", 1), ("x", 1)]);
    }
}
