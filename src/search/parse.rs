//! The grammar of the search box: cuts the text into words, phrases and operators. Owns quotes, minus and colon; never
//! decides what an operator's value means (that is `query`).

use std::ops::Range;

/// The operators. Whatever else stands before a colon is a word.
pub const OPERATORS: [&str; 8] = ["from", "to", "agent", "status", "conversation", "before", "after", "slower"];

#[derive(PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// Where it stands in the text, its minus included.
    pub(super) span: Range<usize>,
    pub(super) negated: bool,
    pub(super) quoted: bool,
    /// The last word may go on: it is still being typed, or ends in a star.
    pub(super) open: bool,
    /// What to search for if it is no operator, or one whose value means nothing.
    pub(super) words: String,
    /// Folded name and value.
    pub(super) operator: Option<(String, String)>,
}

impl Piece {
    /// An operator whose value is not typed yet.
    pub(super) fn incomplete(&self) -> bool {
        self.operator.as_ref().is_some_and(|(_, value)| value.trim().is_empty())
    }
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„' | '«' | '»' | '＂')
}

fn is_colon(c: char) -> bool {
    matches!(c, ':' | '：')
}

pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(|c: char| !c.is_whitespace()).map(|n| at + n) {
        let (piece, end) = piece(text, start);
        pieces.push(piece);
        at = end;
    }
    pieces
}

/// The piece that begins at `start`, which is no white space, and where it ends.
fn piece(text: &str, start: usize) -> (Piece, usize) {
    let negated = text[start..].starts_with('-') && text[start + 1..].starts_with(|c: char| !c.is_whitespace());
    let body = start + usize::from(negated);
    if let Some(first) = text[body..].chars().next().filter(|c| is_quote(*c)) {
        let (inner, end, closed) = quotation(text, body + first.len_utf8());
        let words = text[inner].to_owned();
        return (Piece { span: start..end, negated, quoted: true, open: !closed, words, operator: None }, end);
    }
    let end = text[body..].find(|c: char| c.is_whitespace() || is_quote(c)).map_or(text.len(), |n| body + n);
    let word = &text[body..end];
    let named = word.split_once(is_colon).and_then(|(name, value)| Some((operator(name)?, value)));
    if let Some((name, "")) = named
        && let Some(quote) = text[end..].chars().next().filter(|c| is_quote(*c))
    {
        let (inner, end, _) = quotation(text, end + quote.len_utf8());
        let operator = Some((name.to_owned(), text[inner].to_owned()));
        let words = text[body..end].to_owned();
        return (Piece { span: start..end, negated, quoted: false, open: false, words, operator }, end);
    }
    let open = !negated && (end == text.len() || word.ends_with('*'));
    let operator = named.map(|(name, value)| (name.to_owned(), value.to_owned()));
    (Piece { span: start..end, negated, quoted: false, open, words: word.to_owned(), operator }, end)
}

fn operator(name: &str) -> Option<&'static str> {
    OPERATORS.into_iter().find(|known| known.eq_ignore_ascii_case(name))
}

/// From after the opening quote: what is inside, where the piece ends, whether it was closed.
fn quotation(text: &str, from: usize) -> (Range<usize>, usize, bool) {
    match text[from..].char_indices().find(|(_, c)| is_quote(*c)) {
        Some((n, quote)) => (from..from + n, from + n + quote.len_utf8(), true),
        None => (from..text.len(), text.len(), false),
    }
}
