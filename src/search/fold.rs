//! Folding of characters: case, accents, full width, ligatures; and what a character is to the tokenizer. Owns the
//! mapping from a text to folded units that know the bytes they came from; never cuts words (that is `token`).

use std::collections::VecDeque;
use std::str::Chars;

use unicode_normalization::char::{compose, decompose_compatible, is_combining_mark};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Part of a word that ends where another kind begins.
    Word,
    /// Written without spaces: Han, kana, Hangul, bopomofo.
    Cjk,
    /// Emoji and pictures: each a token of its own.
    Symbol,
    Gap,
}

/// One folded character and the bytes of the text that it stands for, the marks after it included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) c: char,
    pub(super) kind: Kind,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The folded units of a text, in order.
pub(super) struct Units<'a> {
    text: &'a str,
    rest: Chars<'a>,
    ready: VecDeque<Unit>,
}

impl<'a> Units<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, rest: text.chars(), ready: VecDeque::new() }
    }

    fn at(&self) -> usize {
        self.text.len() - self.rest.as_str().len()
    }

    fn push(&mut self, c: char, from: usize, to: usize) {
        if let Some(last) = self.ready.back_mut()
            && joins(c)
            && let Some(joined) = compose(last.c, c)
        {
            *last = Unit { c: joined, kind: kind(joined), from: last.from, to };
        } else {
            self.ready.push_back(Unit { c, kind: kind(c), from, to });
        }
    }

    /// Takes in what belongs to the character before: marks, joiners, voicing signs, the rest of a Hangul syllable.
    fn absorb(&mut self) {
        while let Some(next) = self.rest.clone().next() {
            if next.is_ascii() || !(skipped(next) || joins(unhalved(next))) {
                return;
            }
            if !skipped(next) {
                let joined = self.ready.back().and_then(|last| compose(last.c, unhalved(next)));
                let (Some(joined), Some(last)) = (joined, self.ready.back_mut()) else { return };
                last.c = joined;
                last.kind = kind(joined);
            }
            self.rest.next();
            let to = self.at();
            if let Some(last) = self.ready.back_mut() {
                last.to = to;
            }
        }
    }
}

impl Iterator for Units<'_> {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        while self.ready.is_empty() {
            let from = self.at();
            let c = self.rest.next()?;
            if c.is_ascii() && self.rest.as_str().as_bytes().first().is_none_or(u8::is_ascii) {
                let kind = if c.is_ascii_alphanumeric() { Kind::Word } else { Kind::Gap };
                return Some(Unit { c: c.to_ascii_lowercase(), kind, from, to: from + 1 });
            }
            let to = self.at();
            fold(c, |folded| self.push(folded, from, to));
            if !self.ready.is_empty() {
                self.absorb();
            }
        }
        self.ready.pop_front()
    }
}

/// The folded characters of one: none for what is skipped, several for ligatures and squared words.
fn fold(c: char, mut each: impl FnMut(char)) {
    match c {
        _ if skipped(c) => {}
        // Already what composition would lead back to.
        '\u{ac00}'..='\u{d7a3}' | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{4e00}'..='\u{9fff}' => each(c),
        _ => decompose_compatible(c, |part| {
            for lower in part.to_lowercase().filter(|l| !skipped(*l)) {
                match plain(lower) {
                    Some(letters) => letters.chars().for_each(&mut each),
                    None => each(lower),
                }
            }
        }),
    }
}

/// Letters that decomposition leaves alone and people type without.
fn plain(c: char) -> Option<&'static str> {
    Some(match c {
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'ø' => "o",
        'đ' | 'ð' => "d",
        'ł' => "l",
        'ħ' => "h",
        'ı' => "i",
        'ŧ' => "t",
        'þ' => "th",
        'ŋ' => "n",
        'ς' => "σ",
        _ => return None,
    })
}

/// Accents and points that readers leave out, and characters that show nothing. Vowel signs of Indic and Thai scripts and
/// the kana voicing marks are letters in all but name and stay.
fn skipped(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{487}' | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}'..='\u{5c2}' | '\u{5c4}'..='\u{5c5}' | '\u{5c7}'
        | '\u{610}'..='\u{61a}' | '\u{640}' | '\u{64b}'..='\u{65f}' | '\u{670}'
        | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}'
        | '\u{ad}' | '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Voicing marks of kana and the later parts of a Hangul syllable.
fn joins(c: char) -> bool {
    matches!(c, '\u{3099}' | '\u{309a}' | '\u{1160}'..='\u{11ff}')
}

fn unhalved(c: char) -> char {
    match c {
        '\u{ff9e}' => '\u{3099}',
        '\u{ff9f}' => '\u{309a}',
        _ => c,
    }
}

fn kind(c: char) -> Kind {
    match c {
        '\0'..='\x7f' => {
            if c.is_ascii_alphanumeric() {
                Kind::Word
            } else {
                Kind::Gap
            }
        }
        '\u{3099}'..='\u{309c}' | '\u{30fb}' => Kind::Gap,
        '\u{1100}'..='\u{11ff}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3021}'..='\u{3029}'
        | '\u{3040}'..='\u{312f}'
        | '\u{31a0}'..='\u{31bf}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' => Kind::Cjk,
        '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}' => Kind::Symbol,
        _ if c.is_alphanumeric() || is_combining_mark(c) => Kind::Word,
        _ => Kind::Gap,
    }
}

/// The text's beginning of at most so many bytes, on a character.
pub(super) fn beginning(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// The whole text folded; for names and words of operators.
pub(super) fn folded(text: &str) -> String {
    Units::new(text).map(|unit| unit.c).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn composed_and_decomposed_and_full_width_fold_to_the_same() {
        for (text, to) in [
            ("DÉPLOYÉ", "deploye"),
            ("de\u{301}ploye\u{301}", "deploye"),
            ("ＡＢＣ１", "abc1"),
            ("İstanbul", "istanbul"),
            ("straße", "strasse"),
            ("STRAẞE", "strasse"),
            ("ﬁn", "fin"),
            ("Łódź", "lodz"),
            ("œuvre", "oeuvre"),
            ("niño", "nino"),
            ("ὈΔΥΣΣΕΎΣ", "οδυσσευσ"),
            ("ёлка", "елка"),
        ] {
            assert_eq!(folded(text), to, "{text}");
        }
    }

    #[test]
    fn voicing_marks_make_another_letter() {
        assert_eq!(folded("パ"), "パ");
        assert_eq!(folded("ハ\u{309a}"), "パ");
        assert_eq!(folded("ﾊﾟ"), "パ");
        assert_ne!(folded("パ"), folded("ハ"));
        assert_eq!(folded("㌀"), "アパート");
    }

    #[test]
    fn hangul_in_parts_is_hangul() {
        assert_eq!(folded("\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}"), "한글");
    }

    #[test]
    fn a_unit_spans_its_marks() {
        let units: Vec<_> = Units::new("e\u{301}a").collect();
        assert_eq!((units[0].from, units[0].to, units[1].from), (0, 3, 3));
    }

    proptest! {
        #[test]
        fn folding_twice_changes_nothing_and_spans_lie_on_characters(text in "\\PC{0,40}") {
            let once = folded(&text);
            prop_assert_eq!(folded(&once), once);
            let mut last = 0;
            for unit in Units::new(&text) {
                prop_assert!(text.is_char_boundary(unit.from) && text.is_char_boundary(unit.to));
                prop_assert!(unit.from >= last && unit.from < unit.to);
                last = unit.from;
            }
        }
    }
}
