//! The security log's entries: who did, or tried to do, what, when and from where. Owns their words and that nothing in
//! one is long or can be mistaken for more than text. Refused asks are on record as exchanges and are not repeated here.

use std::sync::Arc;

use super::ids::{Millis, RequestId};
use super::outcome::Outcome;

/// Its word is stored and travels: never rename one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Kind {
    /// A bot's door was tried with no token or a wrong one.
    RefusedAgent,
    /// The page was tried with a wrong token.
    RefusedLogin,
    /// A door did not take what came: over a limit, from a foreign Host or Origin, too large, or never whole.
    RefusedRequest,
    Login,
    Logout,
    /// A token came into being, was changed or taken back.
    Token,
    /// The configuration was read anew, or refused.
    Configuration,
    /// Exchanges were taken off the record: by whom and how many, never which.
    Erasure,
    /// A person did something at the page.
    Person,
    /// An ask was refused by policy; stands on record as an exchange.
    Policy,
    /// An ask was stopped as a loop; stands on record as an exchange.
    Loop,
}

impl Kind {
    pub const ALL: [Self; 11] = [
        Self::RefusedAgent,
        Self::RefusedLogin,
        Self::RefusedRequest,
        Self::Login,
        Self::Logout,
        Self::Token,
        Self::Configuration,
        Self::Erasure,
        Self::Person,
        Self::Policy,
        Self::Loop,
    ];

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::RefusedAgent => "refused_agent",
            Self::RefusedLogin => "refused_login",
            Self::RefusedRequest => "refused_request",
            Self::Login => "login",
            Self::Logout => "logout",
            Self::Token => "token",
            Self::Configuration => "configuration",
            Self::Erasure => "erasure",
            Self::Person => "person",
            Self::Policy => "policy",
            Self::Loop => "loop",
        }
    }

    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.word() == word)
    }

    /// A door did not let somebody or something in: strangers can bring about as many as they like.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::RefusedAgent | Self::RefusedLogin | Self::RefusedRequest)
    }

    /// Stands on record as an exchange, and goes with it.
    #[must_use]
    pub fn is_ask(self) -> bool {
        matches!(self, Self::Policy | Self::Loop)
    }

    /// What a refused ask is to the security log; `None` for what merely could not be delivered.
    #[must_use]
    pub fn of_refusal(outcome: Outcome) -> Option<Self> {
        match outcome {
            Outcome::LoopLimit => Some(Self::Loop),
            Outcome::NotAllowed | Outcome::RateLimited | Outcome::TooLarge | Outcome::SelfAsk | Outcome::UnknownConversation => Some(Self::Policy),
            _ => None,
        }
    }
}

const MAX_WHO: usize = 64;
const MAX_ADDRESS: usize = 64;
const MAX_WHAT: usize = 300;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub at: Millis,
    pub kind: Kind,
    /// A person, an agent, a command; empty for nobody known.
    pub who: Arc<str>,
    /// Empty for what came over no network.
    pub address: Arc<str>,
    pub what: Arc<str>,
    /// So many alike in the time before `at` for which they are counted together: a minute, or an hour.
    pub times: u32,
    /// The exchange that it is about.
    pub request: Option<RequestId>,
}

impl Event {
    #[must_use]
    pub fn new(at: Millis, kind: Kind, who: &str, address: &str, what: &str) -> Self {
        Self { at, kind, who: plain(who, MAX_WHO), address: plain(address, MAX_ADDRESS), what: plain(what, MAX_WHAT), times: 1, request: None }
    }
}

/// A terminal, a log or a reader's eye could be led astray by it.
#[must_use]
pub fn leads_astray(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Clipped, and without what leads astray.
#[must_use]
pub fn plain(text: &str, max: usize) -> Arc<str> {
    let mut out: String = text.chars().take(max).map(|c| if leads_astray(c) { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(max).is_some() {
        out.push('…');
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_short_and_harmless_text_whatever_it_is_made_of() {
        let event = Event::new(Millis(1), Kind::Person, "eve\n2026 INFO fake", "1.2.3.4\u{1b}[2J", &format!("\u{202e}gnp{}", "x".repeat(5_000)));
        assert_eq!(&*event.who, "eve\u{fffd}2026 INFO fake");
        assert_eq!(&*event.address, "1.2.3.4\u{fffd}[2J");
        assert!(event.what.starts_with("\u{fffd}gnp") && event.what.chars().count() == MAX_WHAT + 1 && event.what.ends_with('…'));
    }

    #[test]
    fn every_kind_is_found_by_its_word() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.word()), Some(kind));
        }
        assert_eq!(Kind::of_refusal(Outcome::LoopLimit), Some(Kind::Loop));
        assert_eq!(Kind::of_refusal(Outcome::AgentOffline), None);
    }
}
