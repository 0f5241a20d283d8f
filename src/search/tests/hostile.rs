//! Nothing that is typed is an error, a panic or slow.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::super::highlight::Highlighter;
use super::*;

/// What the fuzz target `tests/it/fuzz.rs` is made of too.
static PIECES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/query/pieces.cases");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
});

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
}

fn hostile(n: usize, rng: &mut Rng) -> String {
    match n % 8 {
        0 => PIECES[rng.below(PIECES.len())].repeat(1 + rng.below(800)),
        1 => (0..10_000).map(|_| char::from(32 + rng.below(95) as u8)).collect(),
        2 => (0..rng.below(300)).filter_map(|_| char::from_u32(rng.below(0x11_0000) as u32)).collect(),
        3 => (0..rng.below(300)).filter_map(|_| char::from_u32(rng.below(0x300) as u32)).collect(),
        _ => (0..rng.below(40)).map(|_| &*PIECES[rng.below(PIECES.len())]).collect::<Vec<_>>().join(if n % 8 < 6 { "" } else { " " }),
    }
}

#[test]
fn ten_thousand_hostile_searches_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let records: Vec<_> =
        (0..300).map(|n| exchange(n, "ana-bot", "ops-bot", "étape 数据库超时 (field: \"a\") 🚀 from:", "ok ~1 ^2 [a TO b]")).collect();
    let index = holding(dir.path(), &records);
    let mut rng = Rng(7);
    let (mut slowest, mut which) = (Duration::ZERO, String::new());
    for n in 0..10_000 {
        let text = hostile(n, &mut rng);
        let begun = Instant::now();
        let mut query = Query::parse(&text, &now());
        query.add("from", &text, &now());
        let found = if n % 5 == 0 { best(&index, &text) } else { ask(&index, &text) };
        let marks = Highlighter::new(&query, true).snippet(&records[0].asked.message, 20);
        assert!(!found.partial && marks.range.end <= records[0].asked.message.len());
        if begun.elapsed() > slowest {
            (slowest, which) = (begun.elapsed(), text.chars().take(40).collect());
        }
    }
    // Milliseconds, but on a machine that has other things to do as well.
    assert!(slowest < Duration::from_secs(5), "{slowest:?} for {which:?}");
}

#[test]
fn eight_hundred_parentheses_are_no_words() {
    let dir = tempfile::tempdir().unwrap();
    let index = holding(dir.path(), &[exchange(1, "ana-bot", "ops-bot", "a", "b")]);
    assert!(Query::parse(&"(".repeat(800), &now()).is_empty());
    assert_eq!(ask(&index, &"(".repeat(800)).total, 1);
    assert_eq!(ask(&index, &"NOT ".repeat(1_600)).total, 0);
}

#[test]
fn a_record_of_any_text_can_be_taken() {
    let dir = tempfile::tempdir().unwrap();
    let long = "é".repeat(200_000);
    let records: Vec<_> = PIECES
        .iter()
        .map(|p| p.repeat(500))
        .chain([long.clone(), String::new()])
        .enumerate()
        .map(|(n, text)| exchange(n as u64, "ana-bot", &text, &text, &text))
        .collect();
    let index = holding(dir.path(), &records);
    assert_eq!(index.documents(), records.len() as u64);
    // Cut words are alike in their first hundred bytes: this one and the e with three marks, over and over.
    assert_eq!(ask(&index, &long[..400]).total, 2);
}

proptest! {
    #[test]
    fn parsing_never_fails_and_is_bounded(text in any::<String>(), more in "\\PC{0,40}") {
        let query = Query::parse(&text, &now());
        prop_assert!(query.clauses.len() + query.filters.len() <= super::super::MAX_TERMS);
        prop_assert!(query.clauses.iter().map(|c| c.tokens.len()).sum::<usize>() <= 64);
        prop_assert!(query.clauses.iter().all(|c| !c.tokens.is_empty()));
        for chip in query.chips() {
            prop_assert!(text.contains(&chip.label) && chip.without.len() < text.len());
        }
        for operator in super::super::OPERATORS {
            let mut query = query.clone();
            query.add(operator, &more, &now());
        }
    }

    #[test]
    fn typing_on_never_fails(words in proptest::collection::vec("(-)?(from:|before:|slower:|status:|\")?[a-z0-9é数 ]{0,6}\"?", 0..8)) {
        let text = words.join(" ");
        for (end, _) in text.char_indices() {
            let query = Query::parse(&text[..end], &now());
            prop_assert!(Highlighter::new(&query, false).marks(&text).len() <= text.len());
        }
    }
}
