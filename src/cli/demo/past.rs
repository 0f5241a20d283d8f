//! A past for the demo: exchanges of several days with outcomes of every kind, written to the store as if they had
//! happened. The same number of exchanges is always the same story.

use std::sync::Arc;

use super::lines::{BOTS, FAILURES, SCRIPTS, Script};
use crate::cli::dice::Dice;
use crate::core::effect::Fact;
use crate::core::exchange::{Asked, End, Late, Trail, WhenOffline, Work};
use crate::core::ids::{AgentName, ConversationId, Millis, RequestId};
use crate::core::outcome::{Outcome, Refusal, explain};
use crate::store::{Store, Written};

const DAYS: u64 = 9;
const HOUR: u64 = 3_600_000;
const QUIET_MS: u64 = 120_000;
/// When the bots were last seen; all but one are back at once.
const AWAY: u64 = 170_000;

/// Writes about `count` exchanges that end before `now`.
pub(super) async fn write(store: &Store, now: Millis, count: usize) -> Result<(), String> {
    let mut facts: Vec<(Millis, Fact)> = tell(now, count);
    for bot in BOTS {
        facts.push((Millis(now.0 - DAYS * 24 * HOUR), Fact::Presence { agent: name(bot), at: Millis(now.0 - DAYS * 24 * HOUR), online: true }));
        facts.push((Millis(now.0 - AWAY), Fact::Presence { agent: name(bot), at: Millis(now.0 - AWAY), online: false }));
    }
    facts.sort_by_key(|(at, _)| *at);
    for batch in facts.chunks(200) {
        let permit = store.reserve().await.map_err(|e| e.to_string())?;
        let (told, done) = tokio::sync::oneshot::channel();
        store.submit(permit, batch.iter().map(|(_, fact)| fact.clone()).collect(), move |written| _ = told.send(written));
        if done.await != Ok(Written::Durable) {
            return Err("the demo's past could not be written".to_owned());
        }
    }
    Ok(())
}

fn tell(now: Millis, count: usize) -> Vec<(Millis, Fact)> {
    let mut dice = Dice::new(0x9e37_79b9_7f4a_7c15);
    let mut facts = Vec::new();
    let mut told = 0;
    while told < count {
        let Some(script) = dice.pick(SCRIPTS) else { break };
        let number = 10 + dice.below(90);
        let mut at = Millis(now.0.saturating_sub(ago(&mut dice)));
        let conversation = ConversationId(dice.uuid(at));
        for (turn, (question, answer)) in script.turns.iter().enumerate() {
            if told >= count || at.plus(QUIET_MS + 60_000) >= now {
                break;
            }
            let question = question.replace("{n}", &number.to_string());
            let asked = asked(&mut dice, script, conversation, turn == 0, at, question);
            let (ended, going_on) = end(&mut dice, asked, &answer.replace("{n}", &number.to_string()), &mut facts);
            told += 1;
            if !going_on {
                break;
            }
            at = ended.plus(5_000 + dice.below(240_000));
        }
    }
    facts
}

/// Working hours are busy, nights are not, yesterday is fuller than last week.
fn ago(dice: &mut Dice) -> u64 {
    let day = dice.below(DAYS).min(dice.below(DAYS));
    let hour = if dice.below(8) == 0 { dice.below(24) } else { (dice.below(10) + dice.below(10)) / 2 };
    day * 24 * HOUR + hour * HOUR + 4 * 60_000 + dice.below(HOUR)
}

fn asked(dice: &mut Dice, script: &Script, conversation: ConversationId, begins: bool, at: Millis, message: String) -> Arc<Asked> {
    let from = name(script.from);
    // Now and then somebody asks for a bot that is none.
    let to = if begins && dice.below(60) == 0 { "sales-bot" } else { script.to };
    let behalf = dice.below(12) == 0 && script.from != "assistant-lea";
    let path = if behalf { vec![name("assistant-lea"), from.clone()] } else { vec![from.clone()] };
    let origin = path.first().cloned().unwrap_or_else(|| from.clone());
    let id = RequestId(dice.uuid(at));
    let trail = Trail { root: id, parent: None, origin, path: path.into() };
    let (to, message) = (to.into(), message.into());
    Arc::new(Asked { id, conversation, begins, from, to, message, at, when_offline: WhenOffline::Fail, trail, key: None, traceparent: None })
}

/// How it ended and when, and whether the conversation goes on.
fn end(dice: &mut Dice, asked: Arc<Asked>, answer: &str, facts: &mut Vec<(Millis, Fact)>) -> (Millis, bool) {
    let (id, at, to) = (asked.id, asked.at, name(&asked.to));
    let ended = |outcome, text: String, at: Millis| Arc::new(End { outcome, text: text.into(), at, call: None, by: None });
    if *asked.to == *"sales-bot" {
        let refusal = Refusal::UnknownAgent { to: "sales-bot".into() };
        facts.push((at, Fact::Refused(asked, ended(refusal.outcome(), refusal.to_string(), at))));
        return (at, false);
    }
    let roll = dice.below(100);
    if roll < 3 {
        let refusal = Refusal::AgentOffline { to, since: Some(Millis(at.0 - HOUR)) };
        facts.push((at, Fact::Refused(asked, ended(refusal.outcome(), refusal.to_string(), at))));
        return (at, false);
    }
    let slow = 300 + dice.below(3_000) + if dice.below(4) == 0 { dice.below(45_000) } else { 0 };
    let (outcome, took, detail) = match roll {
        3..8 => (Outcome::Timeout, QUIET_MS, None),
        8..11 => (Outcome::Failed, slow, dice.pick(&FAILURES).copied()),
        11..13 => (Outcome::AgentDisconnected, 30_000 + slow, None),
        13 => (Outcome::Cancelled, slow, Some("the asker stopped waiting")),
        _ => (Outcome::Answered, slow, None),
    };
    let end_at = at.plus(took);
    let text = if outcome == Outcome::Answered { answer.to_owned() } else { explain(outcome, &to, detail, QUIET_MS) };
    facts.push((at, Fact::Asked(asked)));
    facts.push((end_at, Fact::Ended { id, end: ended(outcome, text, end_at), work: Work::default() }));
    if outcome == Outcome::Timeout && dice.below(2) == 0 {
        let late = Late { answer: answer.into(), at: end_at.plus(20_000), call: None };
        facts.push((late.at, Fact::Late { id, late: Arc::new(late) }));
    }
    (end_at, outcome == Outcome::Answered)
}

/// The demo's names are well formed; another one would be nobody's.
pub(super) fn name(text: &str) -> AgentName {
    AgentName::parse(text).unwrap_or_else(|| unreachable!("{text} is no name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_has_as_many_exchanges_as_it_should_and_every_kind_of_end() {
        let now = Millis(1_796_036_400_000);
        let facts = tell(now, 400);
        let begun = facts.iter().filter(|(_, f)| matches!(f, Fact::Asked(_) | Fact::Refused(..))).count();
        assert_eq!(begun, 400);
        assert!(facts.iter().all(|(at, _)| *at < now));
        let words: std::collections::BTreeSet<_> = facts
            .iter()
            .filter_map(|(_, f)| match f {
                Fact::Ended { end, .. } | Fact::Refused(_, end) => Some(end.outcome.word()),
                Fact::Late { .. } => Some("late"),
                _ => None,
            })
            .collect();
        for word in ["ok", "timeout", "failed", "agent_disconnected", "agent_offline", "unknown_agent", "late"] {
            assert!(words.contains(word), "{word}");
        }
    }
}
