//! Frames, searches and configurations that nobody would write: every case of `tests/corpus`, and mutants of them, none of
//! which may panic, hang, or break what holds for all of them. A file there is one case, whole; `*.cases` is a JSON list of cases.
//!
//! The same thousand mutants each time. `HERMES_BRIDGE_FUZZ_SECONDS=600 cargo test --test it fuzz` tries others, for so
//! long. A mutant that fails is made as small as it goes and kept in the corpus as `failed-..`: mend, and commit it with the mending.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hermes_bridge::config::{Flags, load};
use hermes_bridge::core::ids::Millis;
use hermes_bridge::engine::Highlighter;
use hermes_bridge::search::{MAX_TERMS, Now, OPERATORS, Query};
use hermes_bridge::wire::frames::{FromBot, parse};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

const MUTANTS: u32 = 1_000;
/// One case takes microseconds; a machine that is busy takes its time.
const HANGS: Duration = Duration::from_secs(10);

type Holds<'a> = &'a dyn Fn(&str) -> Result<(), TestCaseError>;

/// Somewhere in the text so many characters become others: random ones, or a part of another case.
#[derive(Clone, Debug)]
struct Edit {
    at: Index,
    cut: usize,
    random: String,
    other: Option<(Index, Index, usize)>,
}

fn edit() -> impl Strategy<Value = Edit> {
    let other = proptest::option::of((any::<Index>(), any::<Index>(), 1..40_usize));
    (any::<Index>(), 0..20_usize, "\\PC{0,6}", other).prop_map(|(at, cut, random, other)| Edit { at, cut, random, other })
}

fn mutant(cases: &[String], which: Index, edits: &[Edit]) -> String {
    let mut text: Vec<char> = which.get(cases).chars().collect();
    for Edit { at, cut, random, other } in edits {
        let at = at.index(text.len() + 1);
        let end = (at + cut).min(text.len());
        let with = match other {
            None => random.clone(),
            Some((which, from, long)) => {
                let case = which.get(cases);
                case.chars().skip(from.index(case.chars().count() + 1)).take(*long).collect()
            }
        };
        text.splice(at..end, with.chars());
    }
    text.into_iter().collect()
}

fn corpus(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let of_file = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let is_list = path.extension().is_some_and(|e| e == "cases");
        let cases: Vec<String> = if is_list { serde_json::from_str(&text).unwrap() } else { vec![text] };
        cases.into_iter().map(move |case| (path.clone(), case))
    };
    files.into_iter().flat_map(of_file).collect()
}

/// Every case of the directory, then mutants; the file in which one that fails was kept, and why it fails.
fn hunt(dir: &Path, holds: Holds<'_>) -> Result<(), (PathBuf, String)> {
    let kept = corpus(dir);
    assert!(kept.len() > 2, "{} is empty", dir.display());
    let in_time = |text: &str| {
        let begun = Instant::now();
        holds(text)?;
        prop_assert!(begun.elapsed() < HANGS, "it took {:?}", begun.elapsed());
        Ok(())
    };
    for (file, case) in &kept {
        in_time(case).map_err(|e| (file.clone(), e.to_string()))?;
    }
    let cases: Vec<String> = kept.into_iter().map(|(_, case)| case).collect();
    let seconds = std::env::var("HERMES_BRIDGE_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    let config = Config { cases: MUTANTS, failure_persistence: None, ..Config::default() };
    let mut runner = match seconds {
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
        Some(_) => TestRunner::new(config),
    };
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    loop {
        let mutants = (any::<Index>(), proptest::collection::vec(edit(), 1..5));
        match runner.run(&mutants, |(which, edits)| in_time(&mutant(&cases, which, &edits))) {
            Ok(()) if Instant::now() < until => {}
            Ok(()) => return Ok(()),
            Err(TestError::Fail(why, (which, edits))) => return Err((keep(dir, &mutant(&cases, which, &edits)), why.to_string())),
            Err(e) => panic!("{e}"),
        }
    }
}

fn keep(dir: &Path, case: &str) -> PathBuf {
    let hash = case.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let path = dir.join(format!("failed-{hash:016x}.txt"));
    fs::write(&path, case).unwrap();
    path
}

fn target(name: &str, holds: Holds<'_>) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    if let Err((file, why)) = hunt(&dir, holds) {
        panic!("{why}: the case is in {}", file.display());
    }
}

#[test]
fn no_frame_of_a_bot_does_harm() {
    target("frames", &|text| {
        match parse(text) {
            FromBot::Call { id, .. } => prop_assert!((1..=200).contains(&id.len())),
            FromBot::Hello(hello) => prop_assert!(hello.instance.iter().chain(&hello.adapter).all(|claim| claim.len() <= 200)),
            FromBot::Heartbeat(_, session) => prop_assert!(session.is_none_or(|s| (1..=200).contains(&s.len()))),
            FromBot::Received(_) | FromBot::BadCall { .. } | FromBot::Ignored => {}
        }
        Ok(())
    });
}

#[test]
fn no_search_does_harm() {
    let now = Now::utc(Millis(1_700_000_000_000));
    target("query", &|text| {
        let mut query = Query::parse(text, &now);
        prop_assert!(query.chips().len() <= MAX_TERMS);
        for chip in query.chips() {
            prop_assert!(text.contains(&chip.label) && chip.without.len() < text.len());
        }
        let marks = Highlighter::new(&query, true);
        prop_assert!(marks.marks(text).len() <= text.len() && marks.snippet(text, 20).range.end <= text.len());
        for operator in OPERATORS {
            query.add(operator, text, &now);
        }
        Ok(())
    });
}

#[test]
fn no_configuration_does_harm() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bridge.toml");
    let flags = Flags { config: Some(file.clone()), ..Flags::default() };
    target("config", &|text| {
        fs::write(&file, text).unwrap();
        if let Err(refused) = load(&flags, &|_| None) {
            let said = refused.to_string();
            prop_assert!(said.contains("bridge.toml") && said.len() < 2_000, "{said}");
        }
        Ok(())
    });
}

#[test]
fn a_mutant_that_fails_is_kept_as_small_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("a.txt", "one two three"), ("b.txt", "four"), ("c.cases", "[\"five\", \"six\"]")] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let (file, why) = hunt(dir.path(), &|text| {
        prop_assert!(!text.contains("five four") && text.chars().count() < 20, "too long");
        Ok(())
    })
    .unwrap_err();
    assert!(why.contains("too long") && fs::read_to_string(&file).unwrap().chars().count() == 20, "{why}");
    let (again, _) = hunt(dir.path(), &|text| {
        prop_assert!(text.chars().count() < 20, "too long");
        Ok(())
    })
    .unwrap_err();
    assert_eq!(again, file, "what was kept is tried first");
}
