//! What is asked for: words, phrases and filters, as data. Owns the meaning of each operator and the chips the page shows;
//! never knows tantivy (that is `plan`) and never fails: what is no operator is words.

use super::fold::folded;
use super::parse;
use super::schema::{STATUS_WORDS, agent_key};
use super::token::{Cut, Shape};
use super::when::{self, Now};
use tantivy::tokenizer::TokenStream;

/// Text beyond so many characters is not read.
pub const MAX_CHARS: usize = 256;
/// Words, phrases and filters beyond so many are not read.
pub const MAX_TERMS: usize = 16;
/// All words of a query together are cut into at most so many tokens; a long run of CJK is the case.
const MAX_TOKENS: usize = 64;

/// A parsed search.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Query {
    pub(super) clauses: Vec<Clause>,
    pub(super) filters: Vec<Filter>,
    chips: Vec<Chip>,
}

/// One operator of the text, for the page to show and take away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chip {
    /// As it was written: `from:daniel-bot`.
    pub label: String,
    /// The search text without it.
    pub without: String,
}

/// A word or phrase. Words that are cut in several (identifiers, CJK) are phrases too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Clause {
    /// In order, with their places counted from the first.
    pub(super) tokens: Vec<(u32, String)>,
    pub(super) negated: bool,
    /// The last token may go on.
    pub(super) prefix: bool,
    /// The word may be mistyped: letters only, long enough, not quoted.
    pub(super) fuzzy: bool,
    /// The word may be the beginning of an id.
    pub(super) id: Option<IdRange>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Filter {
    pub(super) what: What,
    pub(super) negated: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum What {
    From(String),
    To(String),
    /// Either side.
    Agent(String),
    Status(&'static str),
    Conversation(IdRange),
    /// Asked earlier than this moment, in milliseconds.
    Before(u64),
    /// Asked at this moment or later.
    After(u64),
    /// Took this long or longer, or has been waiting since before `then`.
    Slower {
        ms: u64,
        then: u64,
    },
}

/// The ids that begin with what was written, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IdRange(pub(super) u128, pub(super) u128);

impl IdRange {
    /// At least eight hexadecimal digits and nothing but them and hyphens.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        if !(8..=32).contains(&digits.len()) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let free = 4 * (32 - digits.len() as u32);
        let low = u128::from_str_radix(&digits, 16).ok()?.checked_shl(free)?;
        Some(Self(low, low | (1u128 << free).wrapping_sub(1)))
    }
}

impl Query {
    /// Reads a search as a person types it. `now` gives relative times their meaning and days their zone.
    #[must_use]
    pub fn parse(text: &str, now: &Now) -> Self {
        let text = capped(text);
        let mut query = Self::default();
        let pieces = parse::pieces(text);
        let mut budget = MAX_TOKENS;
        for piece in pieces.iter().take(MAX_TERMS) {
            let operator = piece.operator.as_ref().filter(|(name, value)| query.push(name, value, piece.negated, now));
            match operator {
                Some(_) => query.chips.push(Chip { label: text[piece.span.clone()].to_owned(), without: without(text, &piece.span) }),
                None if piece.incomplete() => {}
                None => {
                    let clause = Clause::new(piece, &mut budget);
                    query.clauses.extend(clause);
                }
            }
        }
        query
    }

    /// Adds a filter that came beside the text, as a parameter of the address. `false` if it means nothing; an empty value
    /// means nothing and does no harm.
    pub fn add(&mut self, operator: &str, value: &str, now: &Now) -> bool {
        self.filters.len() < MAX_TERMS && self.push(operator, value, false, now)
    }

    /// The operators of the text, in order.
    #[must_use]
    pub fn chips(&self) -> &[Chip] {
        &self.chips
    }

    /// Nothing narrows the search: every exchange is found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty() && self.filters.is_empty()
    }

    /// There are words to mark, and relevance means something.
    #[must_use]
    pub fn has_words(&self) -> bool {
        self.clauses.iter().any(|c| !c.negated)
    }

    pub(super) fn may_be_mistyped(&self) -> bool {
        self.clauses.iter().any(|c| c.fuzzy && !c.negated)
    }

    fn push(&mut self, operator: &str, value: &str, negated: bool, now: &Now) -> bool {
        let Some(what) = What::parse(operator, value, now) else { return false };
        let (what, negated) = match what {
            What::Before(at) if negated => (What::After(at), false),
            What::After(at) if negated => (What::Before(at), false),
            what => (what, negated),
        };
        self.filters.push(Filter { what, negated });
        true
    }
}

impl What {
    fn parse(operator: &str, value: &str, now: &Now) -> Option<Self> {
        let value = value.trim();
        if value.is_empty() {
            return None;
        }
        Some(match operator {
            "from" => Self::From(agent_key(value)),
            "to" => Self::To(agent_key(value)),
            "agent" => Self::Agent(agent_key(value)),
            "status" => Self::Status(status(value)?),
            "conversation" => Self::Conversation(IdRange::parse(value)?),
            "before" => Self::Before(when::moment(value, now)?),
            "after" => Self::After(when::moment(value, now)?),
            "slower" => {
                let ms = when::span(value)?;
                Self::Slower { ms, then: now.at.0.saturating_sub(ms) }
            }
            _ => return None,
        })
    }
}

/// The status words, and `answered` for `ok`.
fn status(value: &str) -> Option<&'static str> {
    let value = folded(value);
    let value = if value == "answered" { "ok" } else { value.as_str() };
    STATUS_WORDS.iter().copied().find(|word| *word == value)
}

impl Clause {
    /// `None` when nothing in it can be searched for, or the budget is spent.
    fn new(piece: &parse::Piece, budget: &mut usize) -> Option<Self> {
        let (mut tokens, last) = cut(&piece.words);
        let whole = tokens.len() <= *budget;
        tokens.truncate(*budget);
        *budget -= tokens.len();
        let (_, word) = tokens.last()?;
        let prefix = match last.filter(|_| whole) {
            // A run may go on after its last character, and its tokens are pairs then.
            Some(Shape::Single) => true,
            Some(Shape::Word) => piece.open && word.chars().nth(1).is_some(),
            _ => false,
        };
        let fuzzy = tokens.len() == 1 && !piece.quoted && last == Some(Shape::Word) && may_be_mistyped(word);
        let id = if piece.quoted { None } else { IdRange::parse(&piece.words) };
        Some(Self { prefix, negated: piece.negated, fuzzy, id, tokens })
    }
}

/// Four letters or more, no digit: another number is another thing, not a slip.
fn may_be_mistyped(word: &str) -> bool {
    word.chars().count() >= 4 && word.chars().all(char::is_alphabetic)
}

/// The tokens to look for, and what the last one is. The end of a run of CJK is not looked for by itself after a pair that
/// has it: in the text the run may go on.
fn cut(words: &str) -> (Vec<(u32, String)>, Option<Shape>) {
    let mut cut = Cut::new(words);
    let mut tokens: Vec<(u32, String)> = Vec::new();
    let (mut last, mut pair_at) = (None, None);
    while cut.advance() {
        let at = u32::try_from(cut.token().position).unwrap_or(u32::MAX);
        match cut.shape() {
            Shape::Single if pair_at == Some(at.wrapping_sub(1)) => {}
            shape => {
                last = Some(shape);
                pair_at = (shape == Shape::Pair).then_some(at);
                tokens.push((at, cut.token().text.clone()));
            }
        }
    }
    let first = tokens.first().map_or(0, |(at, _)| *at);
    tokens.iter_mut().for_each(|(at, _)| *at -= first);
    (tokens, last)
}

fn capped(text: &str) -> &str {
    text.char_indices().nth(MAX_CHARS).map_or(text, |(end, _)| &text[..end])
}

fn without(text: &str, span: &std::ops::Range<usize>) -> String {
    let (before, after) = (text[..span.start].trim_end(), text[span.end..].trim_start());
    let gap = if before.is_empty() || after.is_empty() { "" } else { " " };
    format!("{before}{gap}{after}").trim_start().to_owned()
}
