//! Messages as HTML: prose as it was written, fenced code in mono, hits marked. A message is text and nothing else: all of
//! it is escaped, nothing in it becomes an element.

use std::ops::Range;

use maud::{Markup, html};

/// A list shows so many characters of a question before it folds the rest.
pub(super) const CLAMP: usize = 180;
/// A page shows so many bytes of one text; the whole of it has a page of its own.
pub(super) const LIMIT: usize = 20_000;

#[derive(PartialEq, Eq, Debug)]
enum Piece {
    Prose(Range<usize>),
    Code(Range<usize>),
}

/// Cuts at ``` fences. A fence that is not closed is prose.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some((open, code, end)) = fence(text, at) {
        pieces.push(Piece::Prose(at..open));
        pieces.push(Piece::Code(code));
        at = end;
    }
    pieces.push(Piece::Prose(at..text.len()));
    let empty = |range: &Range<usize>| text[range.clone()].trim().is_empty();
    pieces.retain(|piece| matches!(piece, Piece::Code(_)) || matches!(piece, Piece::Prose(range) if !empty(range)));
    pieces
}

/// Where the next fence opens, what is in it, and where what follows begins.
fn fence(text: &str, mut from: usize) -> Option<(usize, Range<usize>, usize)> {
    loop {
        let open = from + text[from..].find("```")?;
        let line_end = open + text[open..].find('\n')?;
        let language = &text[open + 3..line_end];
        if language.len() <= 30 && !language.contains('`') && !language.trim().contains(' ') {
            let close = line_end + text[line_end..].find("\n```").map(|n| n + 1)?;
            let rest = close + 3;
            return Some((open, line_end + 1..close.max(line_end + 1), rest));
        }
        from = open + 3;
    }
}

/// A stretch of text with its marks, which are ranges of the whole text.
fn marked(text: &str, range: Range<usize>, marks: &[Range<usize>]) -> Markup {
    html! {
        @for (hit, segment) in segments(text, range, marks) { @if hit { mark { (segment) } } @else { (segment) } }
    }
}

fn segments<'a>(text: &'a str, range: Range<usize>, marks: &[Range<usize>]) -> Vec<(bool, &'a str)> {
    let mut at = range.start;
    let mut segments = Vec::new();
    for mark in marks.iter().filter(|m| m.end > range.start && m.start < range.end) {
        let (start, end) = (mark.start.max(at), mark.end.min(range.end));
        if start < end {
            segments.push((false, text.get(at..start).unwrap_or_default()));
            segments.push((true, text.get(start..end).unwrap_or_default()));
            at = end;
        }
    }
    segments.push((false, text.get(at..range.end).unwrap_or_default()));
    segments
}

/// The whole text.
pub(super) fn whole(text: &str, marks: &[Range<usize>]) -> Markup {
    html! {
        @for piece in pieces(text) {
            @match piece {
                Piece::Code(range) => pre dir="ltr" tabindex="0" { code { (marked(text, trim_end(text, range), marks)) } },
                Piece::Prose(range) => p dir="auto" { (marked(text, trim(text, range), marks)) },
            }
        }
    }
}

/// A piece of it on one line.
pub(super) fn line(text: &str, range: Range<usize>, marks: &[Range<usize>]) -> Markup {
    html! {
        @if range.start > 0 { "… " }
        @for (hit, segment) in segments(text, range.clone(), marks) {
            // On one line a fence is noise.
            @let segment = segment.replace("```", "");
            @if hit { mark { (segment) } } @else { (segment) }
        }
        @if range.end < text.len() { " …" }
    }
}

/// As much as a page shows of it.
pub(super) fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(LIMIT)]
}

/// The first `CLAMP` characters or six lines, cut between words, if it is longer than that.
pub(super) fn clamped(text: &str) -> Option<&str> {
    let lines = text.match_indices('\n').nth(5).map(|(at, _)| at);
    let long = text.char_indices().nth(CLAMP + 40).and_then(|_| text.char_indices().nth(CLAMP)).map(|(at, _)| at);
    let cut = match (lines, long) {
        (None, None) => return None,
        (a, b) => a.unwrap_or(usize::MAX).min(b.unwrap_or(usize::MAX)),
    };
    let head = &text[..cut];
    if text[cut..].starts_with(char::is_whitespace) {
        return Some(head);
    }
    let word = head.char_indices().rev().take(24).find(|(_, c)| c.is_whitespace()).map_or(cut, |(at, _)| at);
    Some(&text[..word])
}

fn trim(text: &str, range: Range<usize>) -> Range<usize> {
    let piece = &text[range.clone()];
    let start = range.start + (piece.len() - piece.trim_start_matches([' ', '\n', '\r']).len());
    trim_end(text, start.min(range.end)..range.end)
}

fn trim_end(text: &str, range: Range<usize>) -> Range<usize> {
    range.start..range.start + text[range].trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<&str> {
        pieces(text).into_iter().filter_map(|p| if let Piece::Code(r) = p { Some(&text[r]) } else { None }).collect()
    }

    #[test]
    fn fences_are_code_and_nothing_else_is() {
        assert_eq!(code("do ```sql\nSELECT 1;\n``` then"), ["SELECT 1;\n"]);
        assert_eq!(code("```\na\n```\n\n```rust\nb\n```"), ["a\n", "b\n"]);
        assert_eq!(code("``` not closed\n x"), Vec::<&str>::new());
        assert_eq!(code("a ```inline``` b"), Vec::<&str>::new());
        assert_eq!(code("```\n```"), [""]);
    }

    #[test]
    fn nothing_in_a_message_becomes_an_element() {
        let text = "<script>alert(1)</script> & \"q\" ```html\n<img src=x onerror=alert(1)>\n```";
        let out = whole(text, std::slice::from_ref(&(0..8))).into_string();
        assert_eq!(out.matches('<').count(), "<p><mark></mark></p><pre><code></code></pre>".matches('<').count(), "{out}");
        assert!(out.contains("<mark>&lt;script&gt;</mark>alert(1)"), "{out}");
    }

    #[test]
    fn only_long_texts_are_clamped() {
        assert_eq!(clamped("short"), None);
        assert_eq!(clamped(&"x ".repeat(100)), None);
        assert!(clamped(&"word ".repeat(100)).unwrap().len() <= CLAMP);
        assert_eq!(clamped(&"数".repeat(500)).unwrap().chars().count(), CLAMP);
        assert!(clamped("1\n2\n3\n4\n5\n6\n7\n8").unwrap().ends_with('6'));
    }

    proptest::proptest! {
        #[test]
        fn every_text_is_rendered(text in "(`|``|```|\n|a|é|<|&| ){0,40}", at in 0usize..40) {
            let marks: Vec<_> = text.char_indices().nth(at).map(|(i, c)| i..i + c.len_utf8()).into_iter().collect();
            whole(&text, &marks);
            clamped(&text);
        }
    }
}
