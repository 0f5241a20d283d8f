//! The tokenizer: cuts a text into words, pairs of CJK characters, and emoji. Owns positions and the bytes each token stands
//! for; the same cut serves indexing, queries and highlights, so they cannot disagree.
//!
//! Every CJK character gives one token: the pair that it begins, or itself where its run ends. So 数据库 is 数据, 据库, 库,
//! and a single character is found as the beginning of a token. That is half of what pairs and characters side by side
//! would cost. Positions: a word or a CJK character counts one, an emoji nothing, so a phrase leaps over it.

use std::iter::Peekable;

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

use super::fold::{Kind, Unit, Units};

/// Longer words are cut here, in texts and queries alike.
pub(super) const MAX_WORD: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    Word,
    /// The last CJK character of a run.
    Single,
    /// A CJK character with the one after it.
    Pair,
    Symbol,
}

pub(super) struct Cut<'a> {
    units: Peekable<Units<'a>>,
    token: Token,
    shape: Shape,
    head_end: usize,
    next_position: usize,
}

impl<'a> Cut<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let token = Token { position: 0, ..Token::default() };
        Self { units: Units::new(text).peekable(), token, shape: Shape::Word, head_end: 0, next_position: 0 }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Where the first character of the token ends in the text.
    pub(super) fn head_end(&self) -> usize {
        self.head_end
    }

    fn begin(&mut self, first: Unit, shape: Shape) {
        self.token.text.clear();
        self.token.text.push(first.c);
        self.token.offset_from = first.from;
        self.token.offset_to = first.to;
        self.head_end = first.to;
        self.token.position = self.next_position;
        self.shape = shape;
    }

    fn word(&mut self, first: Unit) {
        self.begin(first, Shape::Word);
        while let Some(unit) = self.units.next_if(|u| u.kind == Kind::Word) {
            self.token.offset_to = unit.to;
            if self.token.text.len() + unit.c.len_utf8() <= MAX_WORD {
                self.token.text.push(unit.c);
            }
        }
        self.next_position += 1;
    }
}

impl TokenStream for Cut<'_> {
    fn advance(&mut self) -> bool {
        let Some(first) = self.units.find(|u| u.kind != Kind::Gap) else { return false };
        match first.kind {
            Kind::Word => self.word(first),
            Kind::Symbol | Kind::Gap => self.begin(first, Shape::Symbol),
            Kind::Cjk => {
                self.begin(first, Shape::Single);
                if let Some(second) = self.units.peek().filter(|next| next.kind == Kind::Cjk) {
                    self.shape = Shape::Pair;
                    self.token.text.push(second.c);
                    self.token.offset_to = second.to;
                }
                self.next_position += 1;
            }
        }
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

/// `Cut` as tantivy wants it.
#[derive(Clone, Copy, Default)]
pub(super) struct Cutter;

impl Tokenizer for Cutter {
    type TokenStream<'a> = Cut<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Cut<'a> {
        Cut::new(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str) -> Vec<(usize, String)> {
        let mut cut = Cut::new(text);
        let mut all = Vec::new();
        while cut.advance() {
            all.push((cut.token().position, cut.token().text.clone()));
        }
        all
    }

    fn words(text: &str) -> String {
        cut(text).iter().map(|(at, word)| format!("{at}:{word}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn cjk_is_cut_into_pairs_and_the_last_character() {
        assert_eq!(words("数据库"), "0:数据 1:据库 2:库");
        assert_eq!(words("パリ"), "0:パリ 1:リ");
        assert_eq!(words("한국 말"), "0:한국 1:국 2:말");
    }

    #[test]
    fn digits_beside_cjk_stand_alone() {
        assert_eq!(words("超时30秒"), "0:超时 1:时 2:30 3:秒");
        assert_eq!(words("订单F2291已付"), "0:订单 1:单 2:f2291 3:已付 4:付");
    }

    #[test]
    fn identifiers_are_cut_into_their_parts() {
        assert_eq!(words("ask_timeout_ms"), "0:ask 1:timeout 2:ms");
        assert_eq!(words("F-2291"), "0:f 1:2291");
        assert_eq!(words("https://host.example/a?b=1#c"), "0:https 1:host 2:example 3:a 4:b 5:1 6:c");
    }

    #[test]
    fn an_emoji_takes_no_place() {
        assert_eq!(words("done ✅ now 👩🏽\u{200d}💻"), "0:done 1:✅ 1:now 2:👩 2:💻");
    }

    #[test]
    fn a_word_too_long_is_cut_and_not_lost() {
        let long = "é".repeat(5_000);
        let tokens = cut(&format!("a {long} b"));
        assert_eq!(tokens[1].1, "e".repeat(MAX_WORD));
        assert_eq!(tokens[2], (2, "b".to_owned()));
    }

    proptest! {
        #[test]
        fn tokens_lie_on_characters_and_positions_never_fall(text in "\\PC{0,60}") {
            let mut cut = Cut::new(&text);
            let mut last = 0;
            while cut.advance() {
                let token = cut.token();
                prop_assert!(text.get(token.offset_from..token.offset_to).is_some_and(|t| !t.is_empty()));
                prop_assert!(!token.text.is_empty() && token.text.len() <= MAX_WORD);
                prop_assert!(token.position >= last);
                last = token.position;
            }
        }
    }
}
