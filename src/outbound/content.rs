//! What of a text may leave: nothing at all, or the text without tokens and what the owner wants hidden, cut to a size.

use regex::Regex;
use tokio::sync::watch;

use crate::config::{Capture, Export, Secret};
use crate::core::exchange::{Asked, End};
use crate::core::ids::AgentName;
use crate::core::outcome::Outcome;

const HIDDEN: &str = "[redacted]";
/// Shorter ones would hide ordinary words.
const SHORTEST_TOKEN: usize = 8;
/// Tokens that relays make.
const MINTED: &str = "hbt_[0-9a-f]{64}";

pub struct Content {
    capture: Capture,
    max: usize,
    patterns: Vec<Regex>,
    /// Those of the agents, as the configuration has and had them.
    tokens: watch::Receiver<Vec<Secret>>,
}

/// A text on its way out.
#[derive(PartialEq, Eq, Debug)]
pub struct Piece {
    pub text: String,
    pub truncated: bool,
}

impl Content {
    #[must_use]
    pub fn new(export: &Export, tokens: watch::Receiver<Vec<Secret>>) -> Self {
        // Each has been compiled before, when the configuration was read.
        let patterns = std::iter::once(MINTED).chain(export.redact.iter().map(String::as_str)).filter_map(|p| Regex::new(p).ok());
        Self { capture: export.capture, max: export.max_field_bytes, patterns: patterns.collect(), tokens }
    }

    /// Who was asked. What is no agent's name is whatever somebody wrote, so it leaves as a text does or not at all.
    #[must_use]
    pub fn asked_agent(&self, asked: &Asked, end: &End) -> Option<String> {
        if AgentName::parse(&asked.to).is_some() && end.outcome != Outcome::UnknownAgent {
            return Some(asked.to.to_string());
        }
        self.of(&asked.to).map(|piece| piece.text)
    }

    /// `None` where no text may leave.
    #[must_use]
    pub fn of(&self, text: &str) -> Option<Piece> {
        if self.capture == Capture::Metadata {
            return None;
        }
        let mut text = text.to_owned();
        {
            let tokens = self.tokens.borrow();
            let mut found: Vec<&str> = tokens.iter().map(Secret::reveal).filter(|t| t.len() >= SHORTEST_TOKEN && text.contains(t)).collect();
            // A token may begin with another, whose place it must not leave open.
            found.sort_by_key(|token| std::cmp::Reverse(token.len()));
            found.into_iter().for_each(|token| text = text.replace(token, HIDDEN));
        }
        for pattern in &self.patterns {
            if let std::borrow::Cow::Owned(hidden) = pattern.replace_all(&text, HIDDEN) {
                text = hidden;
            }
        }
        let truncated = text.len() > self.max;
        text.truncate(text.floor_char_boundary(self.max));
        Some(Piece { text, truncated })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(section: &str) -> Content {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.toml");
        let text = format!("[otlp]\nendpoint = \"http://c\"\n{section}\n[[agents]]\nname = \"a\"\ntoken = \"tok-alice-1\"\n");
        std::fs::write(&path, text).unwrap();
        let flags = crate::config::Flags { config: Some(path), ..Default::default() };
        let config = crate::config::load(&flags, &|_| None).unwrap();
        Content::new(&config.otlp.as_ref().unwrap().export, watch::Sender::new(config.clear_tokens).subscribe())
    }

    fn left(section: &str, text: &str) -> (String, bool) {
        let piece = content(&format!("capture = \"full\"\n{section}")).of(text).unwrap();
        (piece.text, piece.truncated)
    }

    #[test]
    fn no_text_leaves_unless_it_may() {
        assert_eq!(content("").of("secret"), None);
        assert_eq!(left("", "open"), ("open".to_owned(), false));
    }

    #[test]
    fn tokens_and_what_the_owner_names_are_hidden() {
        let minted = format!("hbt_{}", "0f".repeat(32));
        assert_eq!(left("", &format!("use tok-alice-1 or {minted}.")).0, "use [redacted] or [redacted].");
        assert_eq!(left(r#"redact = ["[0-9]{4}-[0-9]{4}", "(?i)iban \\S+"]"#, "card 1234-5678, IBAN FR76").0, "card [redacted], [redacted]");
    }

    #[test]
    fn a_long_text_is_cut_between_characters_after_hiding() {
        let (text, truncated) = left("max_field_bytes = 100", &"é".repeat(51));
        assert_eq!((text.len(), truncated), (100, true));
        assert_eq!(left("max_field_bytes = 101", &"é".repeat(51)).0.len(), 100);
        let (text, _) = left("max_field_bytes = 100\nredact = [\"x+\"]", &format!("{}{}", "a".repeat(95), "x".repeat(50)));
        assert_eq!(text, format!("{}[reda", "a".repeat(95)));
    }
}
