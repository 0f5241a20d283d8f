//! Names and numbers that the rules speak of: moments, agents, requests, conversations, connections, log positions.
//! Owns their textual forms; never draws one (the driver does, so that tests can choose).

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

impl Millis {
    #[must_use]
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// How long ago `earlier` was; zero if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

/// An agent's name: 1 to 64 of `a-z 0-9 . _ -`, the first a letter or digit. Folded to lower case, so `Bob` is `bob`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentName(Arc<str>);

pub const MAX_NAME: usize = 64;

impl AgentName {
    /// `None` when the text is not a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let first = text.chars().next()?;
        let fits = text.len() <= MAX_NAME && first.is_ascii_alphanumeric();
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        (fits && plain).then(|| Self(text.to_ascii_lowercase().into()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        impl $name {
            /// `None` when the text is not a UUID.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Uuid::try_parse(text.trim()).ok().map(Self)
            }

            #[must_use]
            pub fn from_u128(n: u128) -> Self {
                Self(Uuid::from_u128(n))
            }

            #[must_use]
            pub fn as_u128(self) -> u128 {
                self.0.as_u128()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }
    };
}

uuid_id! {
    /// One question. UUIDv7: ids ascend with time, so the order of ids is the order of questions.
    RequestId
}
uuid_id! {
    /// A run of questions between the same two agents.
    ConversationId
}

/// One WebSocket of an agent. Never reused while the process lives, so a late close cannot be mistaken for a newer connection's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u64);

/// A position in the log: 1 for the first fact ever recorded, then one more for each. What is erased leaves a gap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Seq(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_folded_to_lower_case() {
        assert_eq!(AgentName::parse("Support-Bot").unwrap().as_str(), "support-bot");
    }

    #[test]
    fn what_is_not_a_name_is_refused() {
        for bad in ["", "-a", "a b", "é", "a/b", "a\n", &"x".repeat(65)] {
            assert!(AgentName::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn an_id_survives_its_text() {
        let id = RequestId::from_u128(0x0193_7000_0000_7000_8000_0000_0000_0001);
        assert_eq!(RequestId::parse(&id.to_string()), Some(id));
        assert_eq!(RequestId::parse("nonsense"), None);
    }
}
