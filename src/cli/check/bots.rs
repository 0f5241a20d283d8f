//! Each bot: whether it is online, since when it is away, and whether its adapter is of this version.

use std::collections::BTreeMap;

use super::{Findings, Running};
use crate::config::Config;
use crate::core::outcome::moment;
use crate::store::Look;

/// By what a stopped relay's store and bridge.toml say.
pub(super) fn last_seen(findings: &mut Findings, config: &Config, look: &Look) {
    let added = look.added.iter().map(|name| (name, "agent add"));
    let bots: BTreeMap<_, _> = added.chain(config.agents.iter().map(|agent| (&agent.name, "bridge.toml"))).collect();
    for (name, source) in bots {
        let seen = look.seen.iter().find(|(seen, _)| seen == name);
        let seen = seen.map_or_else(|| "never seen".to_owned(), |(_, at)| format!("last seen {}", moment(*at)));
        findings.ok("agents", format!("agent {name}: {seen} (from {source})"));
    }
}

/// By what the running relay says.
pub(super) fn online(findings: &mut Findings, running: &Running) {
    for bot in &running.agents {
        let seen = match (bot.online, &bot.last_seen) {
            (true, _) => "online".to_owned(),
            (false, Some(at)) => format!("offline, last seen {at}"),
            (false, None) => "never seen".to_owned(),
        };
        let adapter = bot.adapter.as_ref().map_or_else(String::new, |a| format!(", adapter {a}"));
        let what = format!("agent {}: {seen}{adapter} (from {})", bot.name, bot.source);
        // Adapters carry the version of the relay they were released with; others call themselves what they like.
        let number = bot.adapter.as_deref().filter(|a| a.split('.').count() == 3 && a.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
        match number {
            Some(number) if number != running.version => {
                findings.warn("agents", what, format!("the relay's adapter is {}: run the install line again on this bot", running.version));
            }
            _ => findings.ok("agents", what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;
    use crate::core::ids::{AgentName, Millis};

    #[test]
    fn the_bots_of_a_stopped_relay_are_told_with_when_they_were_last_seen() {
        let name = |name| AgentName::parse(name).unwrap();
        let config = crate::config::load(&Flags { config: Some("/dev/null".into()), ..Flags::default() }, &|_| None).unwrap();
        let seen = vec![(name("carol"), Millis(1_796_059_554_000)), (name("gone"), Millis(1))];
        let look = Look { added: vec![name("carol"), name("dave")], seen, ..Look::default() };
        let mut findings = Findings::default();
        last_seen(&mut findings, &config, &look);
        let said: Vec<String> = findings.0.into_iter().map(|f| f.what).collect();
        assert_eq!(said, ["agent carol: last seen 2026-11-30T17:25:54Z (from agent add)", "agent dave: never seen (from agent add)"]);
    }
}
