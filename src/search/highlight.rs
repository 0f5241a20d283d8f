//! Marks the hits of a query in a text, and picks the piece of a long text to show. Owns byte ranges on character
//! boundaries of the text as it is; folds and cuts exactly as the index does. Knows no HTML.

use std::collections::HashMap;
use std::ops::Range;

use tantivy::tokenizer::TokenStream;

use super::fold::beginning;
use super::query::Query;
use super::token::{Cut, Shape};

/// A text is marked in at most so many places; who reads on finds more than enough.
const MAX_MARKS: usize = 1_000;
/// Words of a text are compared until so many are hits.
const MAX_HITS: usize = 4 * MAX_MARKS;
/// Text beyond this is not looked at.
const MAX_BYTES: usize = 1 << 20;

/// The hits of one query, ready to be looked for in many texts.
#[derive(Clone, Debug, Default)]
pub struct Highlighter {
    /// Every word that is looked for, with its number.
    words: HashMap<String, u32>,
    /// Beginnings of words.
    prefixes: Vec<(String, u32)>,
    /// Words that may be mistyped, and whether they may go on.
    near: Vec<(Vec<char>, bool, u32)>,
    /// Numbers of words with their places, in order.
    phrases: Vec<Vec<(u32, u32)>>,
}

/// A piece of a text and the marks in it, both as ranges of the whole text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snippet {
    pub range: Range<usize>,
    pub marks: Vec<Range<usize>>,
}

#[derive(Clone, Copy)]
struct Hit {
    word: u32,
    place: u32,
    from: usize,
    to: usize,
}

impl Highlighter {
    /// `typo` as `Found` has it.
    #[must_use]
    pub fn new(query: &Query, typo: bool) -> Self {
        let mut all = Self::default();
        for clause in query.clauses.iter().filter(|c| !c.negated) {
            let last = clause.tokens.len().saturating_sub(1);
            let phrase = clause.tokens.iter().enumerate().map(|(at, (place, word))| {
                let next = u32::try_from(all.words.len()).unwrap_or(u32::MAX);
                let number = *all.words.entry(word.clone()).or_insert(next);
                if clause.prefix && at == last {
                    all.prefixes.push((word.clone(), number));
                }
                if typo && clause.fuzzy {
                    all.near.push((word.chars().collect(), clause.prefix, number));
                }
                (number, *place)
            });
            let phrase = phrase.collect();
            all.phrases.push(phrase);
        }
        all
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.phrases.is_empty()
    }

    /// What to mark: byte ranges in order, apart from each other.
    #[must_use]
    pub fn marks(&self, text: &str) -> Vec<Range<usize>> {
        if self.is_empty() {
            return Vec::new();
        }
        let text = beginning(text, MAX_BYTES);
        let hits = self.hits(text);
        let mut at: HashMap<(u32, u32), Hit> = HashMap::with_capacity(hits.len());
        hits.iter().for_each(|hit| _ = at.insert((hit.word, hit.place), *hit));
        let mut marks: Vec<Range<usize>> = Vec::new();
        for hit in &hits {
            for phrase in self.phrases.iter().filter(|p| p.first().is_some_and(|(word, _)| *word == hit.word)) {
                // The end of the phrase's last word, if all of them are there.
                let end =
                    phrase.iter().try_fold(hit.to, |end, (word, place)| at.get(&(*word, hit.place.saturating_add(*place))).map(|h| h.to.max(end)));
                marks.extend(end.map(|end| hit.from..end));
            }
            if marks.len() >= MAX_MARKS {
                break;
            }
        }
        joined(marks)
    }

    fn hits(&self, text: &str) -> Vec<Hit> {
        let (mut hits, mut letters) = (Vec::new(), Vec::new());
        let mut cut = Cut::new(text);
        while hits.len() < MAX_HITS && cut.advance() {
            let token = cut.token();
            let place = u32::try_from(token.position).unwrap_or(u32::MAX);
            let mut hit = |word: u32, to: usize| hits.push(Hit { word, place, from: token.offset_from, to });
            if let Some(word) = self.words.get(&token.text) {
                hit(*word, token.offset_to);
            }
            // Of a pair that begins with the character looked for, only that is a hit.
            let to = if cut.shape() == Shape::Pair { cut.head_end() } else { token.offset_to };
            self.prefixes.iter().filter(|(prefix, _)| token.text.starts_with(prefix.as_str())).for_each(|(_, word)| hit(*word, to));
            if cut.shape() == Shape::Word && !self.near.is_empty() {
                letters.clear();
                letters.extend(token.text.chars());
                self.near.iter().filter(|(word, open, _)| near(word, &letters, *open)).for_each(|(_, _, word)| hit(*word, to));
            }
        }
        hits
    }

    /// About `chars` characters of the text with the first mark in them, whole words where that is cheap.
    #[must_use]
    pub fn snippet(&self, text: &str, chars: usize) -> Snippet {
        let marks = self.marks(text);
        let first = marks.first().cloned().unwrap_or(0..0);
        // A third before the hit, so that it is read in its sentence.
        let begin = if text[..first.end].chars().nth(chars * 2 / 3).is_none() { 0 } else { word_start(text, back(text, first.start, chars / 3)) };
        let end = text[begin..].char_indices().nth(chars).map_or(text.len(), |(n, _)| word_end(text, begin + n, first.end.max(begin)));
        let marks = marks.into_iter().filter(|m| m.start >= begin && m.end <= end).collect();
        Snippet { range: begin..end, marks }
    }
}

/// Touching and overlapping ranges become one.
fn joined(mut marks: Vec<Range<usize>>) -> Vec<Range<usize>> {
    marks.sort_unstable_by_key(|m| (m.start, m.end));
    let mut out: Vec<Range<usize>> = Vec::new();
    for mark in marks {
        match out.last_mut() {
            Some(last) if mark.start <= last.end => last.end = last.end.max(mark.end),
            _ => out.push(mark),
        }
    }
    out
}

fn back(text: &str, from: usize, chars: usize) -> usize {
    text[..from].char_indices().rev().take(chars).last().map_or(from, |(at, _)| at)
}

/// How far a cut is moved to fall between words.
const SLACK: usize = 24;

/// The beginning of the word after `at`, if it is near; never inside a letter and its marks.
fn word_start(text: &str, at: usize) -> usize {
    if at == 0 {
        return 0;
    }
    let space = text[at..].char_indices().take(SLACK).find(|(_, c)| c.is_whitespace());
    space.map_or_else(|| whole(text, at), |(n, c)| at + n + c.len_utf8())
}

/// The end of the last word before `at`, if it is near and not before `least`.
fn word_end(text: &str, at: usize, least: usize) -> usize {
    let space = text[..at].char_indices().rev().take(SLACK).find(|(_, c)| c.is_whitespace());
    space.map(|(n, _)| n).filter(|end| *end >= least).unwrap_or_else(|| whole(text, at)).max(least)
}

/// The next place that is not before a mark, a joiner or a variation of the character before.
fn whole(text: &str, at: usize) -> usize {
    let bound = |c: &char| {
        unicode_normalization::char::is_combining_mark(*c) || matches!(c, '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}')
    };
    text[at..].char_indices().take(SLACK).find(|(_, c)| !bound(c)).map_or(at, |(n, _)| at + n)
}

/// One insertion, deletion, substitution or swap of neighbours apart, as the index looks them up. With `open`, a beginning
/// of `token` is enough.
fn near(word: &[char], token: &[char], open: bool) -> bool {
    if !open {
        return within_one(word, token);
    }
    (word.len().saturating_sub(1)..=word.len() + 1).any(|n| token.get(..n).is_some_and(|begin| within_one(word, begin)))
}

fn within_one(a: &[char], b: &[char]) -> bool {
    if a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[same..], &b[same..]);
    match (a, b) {
        ([], _) | (_, []) => true,
        ([x, y, rest @ ..], [v, w, tail @ ..]) if x == w && y == v && rest == tail => true,
        ([_, rest @ ..], [_, tail @ ..]) => rest == tail || a == tail || rest == b,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::when::Now;
    use super::*;
    use crate::core::ids::Millis;

    fn marked(query: &str, text: &str, typo: bool) -> Vec<String> {
        let query = Query::parse(query, &Now::utc(Millis(1_796_036_400_000)));
        Highlighter::new(&query, typo).marks(text).into_iter().map(|m| text[m].to_owned()).collect()
    }

    #[test]
    fn hits_are_marked_as_they_are_written() {
        assert_eq!(marked("etape ", "Première Étape, étapes", false), ["Étape"]);
        assert_eq!(marked("etape", "Première Étape, étapes", false), ["Étape", "étapes"]);
        assert_eq!(marked("déployé", "de\u{301}ploye\u{301}!", false), ["de\u{301}ploye\u{301}"]);
        assert_eq!(marked("数据库", "连接数据库超时，数据", false), ["数据库"]);
        assert_eq!(marked("库", "连接数据库超时", false), ["库"]);
        assert_eq!(marked("ask_timeout_ms", "set ask_timeout_ms = 1, ask timeout", false), ["ask_timeout_ms"]);
        assert_eq!(marked("ask_tim", "set ask_timeout_ms", false), ["ask_timeout"]);
        assert_eq!(marked("-no yes ", "no yes", false), ["yes"]);
    }

    #[test]
    fn a_phrase_is_marked_whole_and_only_as_a_phrase() {
        assert_eq!(marked("\"the red fox\"", "the red dog, the red ✅ fox", false), ["the red ✅ fox"]);
    }

    #[test]
    fn a_typo_is_marked_where_it_was_meant() {
        assert_eq!(marked("deploi ", "we deploy now", false), Vec::<String>::new());
        assert_eq!(marked("deploi ", "we deploy now", true), ["deploy"]);
        assert_eq!(marked("dpeloy", "deployment", true), ["deployment"]);
    }

    #[test]
    fn a_snippet_has_the_hit_in_its_sentence() {
        let text = format!("{}the needle is here {}", "hay ".repeat(500), "hay ".repeat(500));
        let query = Query::parse("needle", &Now::utc(Millis(1_796_036_400_000)));
        let snippet = Highlighter::new(&query, false).snippet(&text, 60);
        let piece = &text[snippet.range.clone()];
        assert!(piece.starts_with("hay") && piece.contains("needle is here") && piece.chars().count() <= 62, "{piece:?}");
        assert_eq!(&text[snippet.marks[0].clone()], "needle");
        let whole = Highlighter::new(&query, false).snippet("short", 60);
        assert_eq!(whole, Snippet { range: 0..5, marks: vec![] });
    }

    #[test]
    fn a_large_text_is_marked_quickly() {
        let text = "déployé 数据库 ask_timeout_ms ".repeat(8_000);
        let begun = std::time::Instant::now();
        assert!(!marked("deploye 数据库 ask_timeout", &text, true).is_empty());
        assert!(begun.elapsed().as_millis() < 1_000, "{:?}", begun.elapsed());
    }

    proptest! {
        #[test]
        fn marks_and_snippets_lie_on_characters(query in "\\PC{0,30}", text in "\\PC{0,80}", chars in 0usize..40) {
            let query = Query::parse(&query, &Now::utc(Millis(1_796_036_400_000)));
            let high = Highlighter::new(&query, true);
            let mut last = 0;
            for mark in high.marks(&text) {
                prop_assert!(text.get(mark.clone()).is_some_and(|t| !t.is_empty()) && mark.start >= last);
                last = mark.end;
            }
            let snippet = high.snippet(&text, chars);
            prop_assert!(text.get(snippet.range).is_some());
        }

        #[test]
        fn one_edit_is_near(word in "[a-z]{4,8}", at in 0usize..4, with in "[a-z]") {
            let chars: Vec<char> = word.chars().collect();
            let (mut gone, mut more, mut other, mut swapped) = (chars.clone(), chars.clone(), chars.clone(), chars.clone());
            let letter = with.chars().next().unwrap();
            gone.remove(at);
            more.insert(at, letter);
            other[at] = letter;
            if at + 1 < swapped.len() { swapped.swap(at, at + 1); }
            for b in [gone, more, other, swapped] {
                prop_assert!(within_one(&chars, &b) && within_one(&b, &chars));
            }
        }
    }
}
