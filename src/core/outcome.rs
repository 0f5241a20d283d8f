//! How a question can end, in one closed set, and the sentence a model reads about each. Owns the words; never decides
//! which outcome an exchange has (that is `relay`).

use std::fmt;

use super::ids::{AgentName, ConversationId, Millis, RequestId};

/// The one end of an exchange. Its word travels and is stored: never rename one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Outcome {
    Answered,
    Timeout,
    AgentOffline,
    AgentDisconnected,
    /// The asked bot said that its turn failed, was interrupted or produced nothing.
    Failed,
    Cancelled,
    Expired,
    UnknownAgent,
    UnknownConversation,
    SelfAsk,
    NotAllowed,
    LoopLimit,
    RateLimited,
    TooLarge,
    Conflict,
    StoreUnavailable,
}

impl Outcome {
    pub const ALL: [Self; 16] = [
        Self::Answered,
        Self::Timeout,
        Self::AgentOffline,
        Self::AgentDisconnected,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
        Self::UnknownAgent,
        Self::UnknownConversation,
        Self::SelfAsk,
        Self::NotAllowed,
        Self::LoopLimit,
        Self::RateLimited,
        Self::TooLarge,
        Self::Conflict,
        Self::StoreUnavailable,
    ];

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "ok",
            Self::Timeout => "timeout",
            Self::AgentOffline => "agent_offline",
            Self::AgentDisconnected => "agent_disconnected",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::UnknownAgent => "unknown_agent",
            Self::UnknownConversation => "unknown_conversation",
            Self::SelfAsk => "self_ask",
            Self::NotAllowed => "not_allowed",
            Self::LoopLimit => "loop_limit",
            Self::RateLimited => "rate_limited",
            Self::TooLarge => "too_large",
            Self::Conflict => "conflict",
            Self::StoreUnavailable => "store_unavailable",
        }
    }

    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|o| o.word() == word)
    }
}

/// The limits that end a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopRule {
    Depth,
    Root,
    Turns,
    Pair,
    /// Every hand of the target waits for the end of this very chain.
    Hands,
}

impl LoopRule {
    /// The key of bridge.toml.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Depth => "max_depth",
            Self::Root => "max_asks_per_root",
            Self::Turns => "max_turns_per_conversation",
            Self::Pair => "max_asks_per_pair_per_hour",
            Self::Hands => "max_wakes_per_agent",
        }
    }
}

/// An ask that is not begun. Recorded like any other end; never an error, never logged above debug.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    UnknownAgent {
        to: String,
    },
    UnknownConversation {
        given: String,
    },
    SelfAsk,
    AgentOffline {
        to: AgentName,
        since: Option<Millis>,
    },
    NotAllowed {
        to: AgentName,
    },
    /// A person has stopped a bot, or two of them from talking.
    Paused {
        what: String,
    },
    /// `path` is the chain of agents that led here, or the circle, the refused one last.
    LoopLimit {
        rule: LoopRule,
        max: u32,
        path: Vec<AgentName>,
    },
    /// The target is already at work in this conversation and waits for this very asker.
    WouldWaitForItself {
        conversation: ConversationId,
        path: Vec<AgentName>,
    },
    RateLimited {
        limit: &'static str,
        max: u64,
        retry_in_ms: u64,
    },
    LineFull {
        to: AgentName,
        limit: &'static str,
        max: u64,
    },
    /// It let so many questions in a row time out.
    Silent {
        to: AgentName,
        timeouts: u32,
        until: Millis,
        retry_in_ms: u64,
    },
    TooLarge {
        what: &'static str,
        bytes: usize,
        max: usize,
        limit: &'static str,
    },
    Conflict {
        first: RequestId,
    },
    StoreUnavailable,
}

impl Refusal {
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::UnknownAgent { .. } => Outcome::UnknownAgent,
            Self::UnknownConversation { .. } => Outcome::UnknownConversation,
            Self::SelfAsk => Outcome::SelfAsk,
            Self::AgentOffline { .. } => Outcome::AgentOffline,
            Self::NotAllowed { .. } | Self::Paused { .. } => Outcome::NotAllowed,
            Self::LoopLimit { .. } | Self::WouldWaitForItself { .. } => Outcome::LoopLimit,
            Self::RateLimited { .. } | Self::LineFull { .. } | Self::Silent { .. } => Outcome::RateLimited,
            Self::TooLarge { .. } => Outcome::TooLarge,
            Self::Conflict { .. } => Outcome::Conflict,
            Self::StoreUnavailable => Outcome::StoreUnavailable,
        }
    }
}

fn path_text(path: &[AgentName]) -> String {
    path.iter().map(AgentName::as_str).collect::<Vec<_>>().join(" -> ")
}

/// What happened, what to do, what not to do: one sentence or two, for the model that reads it.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownAgent { to } => {
                write!(f, "There is no agent named \"{to}\" that you can ask. Call list_agents for the names; do not guess one.")
            }
            Self::UnknownConversation { given } => {
                write!(f, "There is no conversation \"{given}\" of yours. Ask without conversation_id to begin a new one.")
            }
            Self::SelfAsk => f.write_str("You asked yourself. Answer from what you know, or ask another agent."),
            Self::AgentOffline { to, since } => {
                write!(f, "{to} is not connected")?;
                match since {
                    Some(at) => write!(f, " (last seen {})", moment(*at))?,
                    None => f.write_str(" and has never been")?,
                }
                f.write_str(
                    ". Nothing was sent. Ask later, ask another agent, or ask with when_offline=\"queue\" to leave the question for its return.",
                )
            }
            Self::NotAllowed { to } => {
                write!(f, "You may not ask {to}: the owner of this relay has not allowed it. Do not retry; ask an agent that list_agents shows.")
            }
            Self::Paused { what } => {
                write!(
                    f,
                    "A person has paused {what}. Nothing was sent. Do not retry: it stays so until the person resumes it; go on without this answer."
                )
            }
            Self::LoopLimit { rule, max, path } => {
                let what = match rule {
                    LoopRule::Depth => "this question is part of a chain of agents asking each other",
                    LoopRule::Root => "one question has led to too many others; this one comes by the chain",
                    LoopRule::Turns => "this conversation has gone on for long without a person",
                    LoopRule::Pair => "agents keep asking each other in a circle",
                    LoopRule::Hands => "every hand of the agent waits for this chain of questions",
                };
                let key = rule.key();
                write!(
                    f,
                    "Stopped: {what} ({}), and {key} = {max} is reached. Do not ask again, thank or say goodbye; end with what you have.",
                    path_text(path)
                )
            }
            Self::WouldWaitForItself { conversation, path } => write!(
                f,
                "Stopped: {} is waiting for you in conversation {conversation} ({}), so this question would wait for itself. Reply to the question you were asked, or ask without conversation_id.",
                path.last().map_or("the agent", AgentName::as_str),
                path_text(path)
            ),
            Self::RateLimited { limit, max, retry_in_ms } => {
                write!(
                    f,
                    "Too much: {limit} = {max} is reached. Nothing was sent. Do not retry before {} seconds have passed.",
                    retry_in_ms.div_ceil(1000)
                )
            }
            Self::LineFull { to, limit, max } => {
                write!(f, "What waits for {to} already reaches {limit} = {max}. Nothing was sent. Ask later or ask another agent.")
            }
            Self::Silent { to, timeouts, until, .. } => write!(
                f,
                "{to} is connected but let the last questions time out (max_timeouts_in_a_row = {timeouts}). Nothing was sent. Do not retry before {}; ask another agent.",
                moment(*until)
            ),
            Self::TooLarge { what, bytes, max, limit } => {
                write!(f, "The {what} has {bytes} bytes; {limit} = {max}. Nothing was sent. Shorten it or send it in parts.")
            }
            Self::Conflict { first } => {
                write!(f, "This request_key was already used for another question ({first}). Use a new request_key for a new question.")
            }
            Self::StoreUnavailable => {
                f.write_str("The relay cannot record anything at the moment and does not go on without. Nothing was sent. Try again in a minute.")
            }
        }
    }
}

/// The sentence for an exchange that began and did not end with an answer.
#[must_use]
pub fn explain(outcome: Outcome, to: &AgentName, detail: Option<&str>, quiet_ms: u64) -> String {
    match outcome {
        Outcome::Answered => String::new(),
        Outcome::Timeout => format!(
            "{to} received the question but nothing was heard from it for {} seconds. Do not ask again at once: if its answer still comes it is kept, get_answer fetches it.",
            quiet_ms.div_ceil(1000)
        ),
        Outcome::AgentOffline => {
            format!("{to} did not come back while the question waited for it. Nothing was worked on. Ask later or ask another agent.")
        }
        Outcome::AgentDisconnected => format!(
            "{to} lost its connection while it worked on this and did not come back in time. Its answer is kept if it still comes: get_answer fetches it. Ask again only if you need to."
        ),
        Outcome::Failed => format!(
            "{to} could not answer: {}. Rephrase the question or ask another agent.",
            detail.unwrap_or("its turn ended without an answer").trim_end_matches('.')
        ),
        Outcome::Cancelled => {
            detail.map_or_else(|| "This question was cancelled.".to_owned(), |d| format!("This question was cancelled: {}.", d.trim_end_matches('.')))
        }
        Outcome::Expired => format!("{to} did not come back before the question expired. It was not delivered."),
        // Refusals carry their own sentence, stored as the detail.
        _ => detail.unwrap_or_default().to_owned(),
    }
}

/// The sentence for a `timeout` of a question that was never sent.
#[must_use]
pub fn never_reached(to: &AgentName) -> String {
    format!("{to} is connected but other questions were before this one all the time; it was not sent. Ask later or ask another agent.")
}

/// The sentence for a `timeout` of a question that was at work until the last moment.
#[must_use]
pub fn took_too_long(to: &AgentName, max_ms: u64) -> String {
    format!(
        "{to} was still at work after {} seconds, the longest that a question may take here. Do not ask again at once: if its answer still comes it is kept, get_answer fetches it.",
        max_ms.div_ceil(1000)
    )
}

/// `2026-11-30T17:25:54Z`.
#[must_use]
pub fn moment(at: Millis) -> String {
    i64::try_from(at.0)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| format!("{} ms", at.0), |t| t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back_as_its_outcome() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::parse(outcome.word()), Some(outcome));
        }
        assert_eq!(Outcome::parse("nonsense"), None);
    }

    #[test]
    fn a_moment_is_written_in_utc() {
        assert_eq!(moment(Millis(0)), "1970-01-01T00:00:00Z");
        assert_eq!(moment(Millis(951_782_400_000)), "2000-02-29T00:00:00Z");
        assert_eq!(moment(Millis(1_796_059_554_999)), "2026-11-30T17:25:54Z");
    }

    #[test]
    fn a_loop_is_refused_with_its_path() {
        let path = ["a", "b", "c", "a"].map(|n| AgentName::parse(n).unwrap()).to_vec();
        let text = Refusal::LoopLimit { rule: LoopRule::Depth, max: 3, path }.to_string();
        assert!(text.contains("a -> b -> c -> a") && text.contains("max_depth = 3"), "{text}");
    }
}
