//! What a search text means, as chips and as equal queries.

use super::*;

fn chips(text: &str) -> Vec<(String, String)> {
    Query::parse(text, &now()).chips().iter().map(|c| (c.label.clone(), c.without.clone())).collect()
}

fn same(a: &str, b: &str) -> bool {
    let (a, b) = (Query::parse(a, &now()), Query::parse(b, &now()));
    (a.clauses, a.filters) == (b.clauses, b.filters)
}

#[test]
fn each_operator_is_a_chip_that_can_be_taken_away() {
    let want = [
        ("from:daniel-bot", "facture -status:ok after:2d"),
        ("-status:ok", "facture from:daniel-bot after:2d"),
        ("after:2d", "facture from:daniel-bot -status:ok"),
    ];
    assert_eq!(chips("facture from:daniel-bot -status:ok after:2d"), want.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!(chips("from:\"a b\" x"), [("from:\"a b\"".to_owned(), "x".to_owned())]);
    assert_eq!(chips("words https://a.b status:nonsense before:tomorrow"), []);
}

#[test]
fn what_is_no_operator_is_words() {
    assert!(same("field:value ", "\"field value\"") || !Query::parse("field:value ", &now()).is_empty());
    for text in ["unknown:daemon ", "status:nonsense ", "before:tomorrow ", "conversation:abc ", "slower:quick "] {
        let query = Query::parse(text, &now());
        assert!(query.filters.is_empty() && query.clauses.len() == 1 && query.clauses[0].tokens.len() == 2, "{text}: {query:?}");
    }
}

#[test]
fn an_operator_without_its_value_waits_for_it() {
    for text in ["from:", "-from:", "before:", "FROM:", "from：", "status:\"", "-", "\"", "\"\"", "  ", ""] {
        assert!(Query::parse(text, &now()).is_empty(), "{text}");
    }
}

#[test]
fn full_width_colons_and_capitals_are_understood() {
    assert!(same("from：Daniel-Bot", "from:daniel-bot"));
    assert!(same("Status:OK", "status:answered"));
    assert!(same("after:1d", "after:24h"));
}

#[test]
fn a_filter_beside_the_text_is_as_one_in_it_but_no_chip() {
    let mut query = Query::parse("facture ", &now());
    assert!(query.add("from", "daniel-bot", &now()));
    for (operator, value) in [("from", ""), ("status", "nonsense"), ("before", "tomorrow"), ("colour", "red")] {
        assert!(!query.add(operator, value, &now()), "{operator}");
    }
    let written = Query::parse("facture from:daniel-bot ", &now());
    assert!(query.chips().is_empty() && written.chips().len() == 1);
    assert_eq!((query.filters, query.clauses), (written.filters, written.clauses));
}

#[test]
fn only_the_word_being_typed_may_go_on() {
    let prefixes = |text: &str| Query::parse(text, &now()).clauses.iter().map(|c| c.prefix).collect::<Vec<_>>();
    assert_eq!(prefixes("one two"), [false, true]);
    assert_eq!(prefixes("one two "), [false, false]);
    assert_eq!(prefixes("one t"), [false, false]);
    assert_eq!(prefixes("on* \"two\""), [true, false]);
    assert_eq!(prefixes("one -two"), [false, false]);
}

#[test]
fn a_long_text_is_read_to_its_bound() {
    let words: Vec<String> = (0..100).map(|n| format!("w{n}")).collect();
    assert_eq!(Query::parse(&words.join(" "), &now()).clauses.len(), super::super::MAX_TERMS);
    assert!(same(&format!("{}tail", "x".repeat(256)), &"x".repeat(256)));
    let han = Query::parse(&"数据".repeat(500), &now());
    assert_eq!(han.clauses[0].tokens.len(), 64);
}
