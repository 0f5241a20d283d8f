//! The report: medians of rounds, ratios, and their JSON for machines.
//!
//! Owns the shape of the figures; measures nothing and words nothing (`table` does). A ratio is the median of the ratios of each
//! round, because what disturbs the machine disturbs neighbours in time alike.

use super::history::History;
use super::idle::{IdleBots, Start};
use super::load::Figures;
use super::proc::Machine;
use super::server::Kind;
use super::stats::{median, ratio};
use super::trust::Trust;
use super::upkeep::Upkeep;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Report {
    pub version: u32,
    pub machine: Machine,
    pub settings: Settings,
    pub start: Option<Beside<Start>>,
    pub asks: Vec<Compared>,
    pub commits: Vec<Compared>,
    pub list_agents: Option<Compared>,
    pub idle_bots: Option<Beside<IdleBots>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upkeep: Option<Upkeep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
}

#[derive(Serialize)]
pub(super) struct Settings {
    pub message_bytes: usize,
    pub reply: &'static str,
    pub rounds: usize,
    pub window_seconds: f64,
}

/// The same figure of each server that was measured.
#[derive(Serialize)]
pub(super) struct Beside<T> {
    pub floor: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durable_floor: Option<T>,
    pub relay: Option<T>,
}

/// So many at once, of one server after the other.
#[derive(Serialize)]
pub(super) struct Compared {
    pub at_once: usize,
    /// That took part, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<usize>,
    pub median: Beside<Figures>,
    /// Of the relay to the floor that does as much as it.
    pub ratios: Option<Ratios>,
    rounds: Beside<Vec<Figures>>,
}

#[derive(Serialize)]
pub(super) struct Ratios {
    pub per_second: Option<f64>,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
}

impl<T> Default for Beside<T> {
    fn default() -> Self {
        Self { floor: None, durable_floor: None, relay: None }
    }
}

impl<T> Beside<T> {
    pub(super) fn of(&mut self, kind: Kind) -> &mut Option<T> {
        match kind {
            Kind::Floor => &mut self.floor,
            Kind::DurableFloor => &mut self.durable_floor,
            Kind::Relay => &mut self.relay,
        }
    }

    fn map<U>(&self, each: impl Fn(&T) -> U) -> Beside<U> {
        Beside { floor: self.floor.as_ref().map(&each), durable_floor: self.durable_floor.as_ref().map(&each), relay: self.relay.as_ref().map(&each) }
    }

    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, &T)> {
        let all = [("floor", &self.floor), ("durable floor", &self.durable_floor), ("relay", &self.relay)];
        all.into_iter().filter_map(|(name, one)| Some((name, one.as_ref()?)))
    }
}

impl Compared {
    pub(super) fn new(at_once: usize, agents: Option<usize>, mut rounds: Beside<Vec<Figures>>, to: Kind) -> Self {
        let median = rounds.map(|rounds| medians(rounds));
        let floor = rounds.of(to).take();
        let ratios = ratios(&rounds.relay, &floor);
        *rounds.of(to) = floor;
        Self { at_once, agents, median, ratios, rounds }
    }
}

pub(super) fn medians(rounds: &[Figures]) -> Figures {
    let of = |get: fn(&Figures) -> f64| median(rounds.iter().map(get)).unwrap_or(0.0);
    let maybe = |get: fn(&Figures) -> Option<f64>| median(rounds.iter().filter_map(get));
    Figures {
        per_second: of(|f| f.per_second),
        p50_ms: of(|f| f.p50_ms),
        p90_ms: of(|f| f.p90_ms),
        p99_ms: of(|f| f.p99_ms),
        max_ms: of(|f| f.max_ms),
        server_cpu_ms_per_call: maybe(|f| f.server_cpu_ms_per_call),
        client_cpu_ms_per_call: maybe(|f| f.client_cpu_ms_per_call),
        server_rss_mb: maybe(|f| f.server_rss_mb),
    }
}

pub(super) fn ratios(relay: &Option<Vec<Figures>>, floor: &Option<Vec<Figures>>) -> Option<Ratios> {
    let (relay, floor) = (relay.as_ref()?, floor.as_ref()?);
    let of = |get: fn(&Figures) -> f64| {
        let each = relay.iter().zip(floor);
        median(each.filter_map(|(r, f)| ratio(Some(get(r)), Some(get(f)))))
    };
    Some(Ratios { per_second: of(|f| f.per_second), p50: of(|f| f.p50_ms), p99: of(|f| f.p99_ms) })
}

impl Report {
    pub(super) fn json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(self).map_err(|e| format!("JSON: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(per_second: f64, p50_ms: f64) -> Figures {
        Figures { per_second, p50_ms, p99_ms: 2.0 * p50_ms, ..Figures::default() }
    }

    #[test]
    fn a_ratio_is_of_the_same_round_and_then_the_median() {
        let rounds = Beside {
            floor: None,
            durable_floor: Some(vec![round(100.0, 1.0), round(1000.0, 0.1), round(100.0, 1.0)]),
            relay: Some(vec![round(50.0, 2.0), round(500.0, 0.2), round(60.0, 2.0)]),
        };
        let level = Compared::new(16, None, rounds, Kind::DurableFloor);
        let ratios = level.ratios.unwrap();
        assert_eq!(ratios.per_second, Some(0.5));
        assert_eq!(ratios.p50, Some(2.0));
        assert_eq!(level.median.relay.unwrap().per_second, 60.0);
    }

    #[test]
    fn without_a_relay_there_is_no_ratio_and_no_row() {
        let rounds = Beside { floor: Some(vec![round(1.0, 1.0)]), durable_floor: None, relay: None };
        let level = Compared::new(1, None, rounds, Kind::Floor);
        assert!(level.ratios.is_none());
        assert_eq!(level.median.named().map(|(name, _)| name).collect::<Vec<_>>(), ["floor"]);
    }
}
