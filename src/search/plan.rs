//! From a query to what tantivy runs. Owns how each clause and filter is looked up, and the bounds on that; times are not
//! looked up at all but handed to `walk` as a window, because segments are nearly in order of time.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::Instant;

use tantivy::query::{
    AllQuery, BooleanQuery, BoostQuery, ConstScoreQuery, FuzzyTermQuery, InvertedIndexRangeQuery, Occur, PhraseQuery, Query as Lookup, RangeQuery,
    TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{Searcher, Term};

use super::clock::{Clock, PatientPhrase};
use super::query::{Clause, Filter, IdRange, Query, What};
use super::schema::Fields;

/// A phrase whose last word goes on is looked up with the commonest so many continuations.
const MAX_CONTINUATIONS: usize = 64;
/// So many terms of a dictionary are looked at for them.
const MAX_SCANNED: usize = 20_000;

pub(super) struct Plan {
    pub(super) lookup: Box<dyn Lookup>,
    /// Asked within these milliseconds.
    pub(super) window: Range<u64>,
    /// Every document is in it, but for the window.
    pub(super) all: bool,
    /// One term: the dictionary knows the count.
    pub(super) counted: bool,
    /// Scores mean something.
    pub(super) scored: bool,
    pub(super) clock: Arc<Clock>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spelling {
    Exact,
    /// One letter more, less, other or swapped.
    Typo,
}

pub(super) fn plan(
    query: &Query,
    fields: &Fields,
    searcher: &Searcher,
    spelling: Spelling,
    scored: bool,
    deadline: Instant,
) -> tantivy::Result<Plan> {
    let clock = Clock::new(deadline);
    let planner = Planner { fields, searcher, spelling, scored, clock: clock.clone() };
    let mut parts: Vec<(Occur, Box<dyn Lookup>)> = Vec::new();
    for clause in &query.clauses {
        let occur = if clause.negated { Occur::MustNot } else { Occur::Must };
        parts.push((occur, planner.clause(clause)?));
    }
    let single =
        query.filters.is_empty() && matches!(query.clauses.as_slice(), [c] if !c.negated && !c.prefix && c.id.is_none() && c.tokens.len() == 1);
    let mut window = 0..u64::MAX;
    planner.filters(&query.filters, &mut window, &mut parts);
    let all = parts.is_empty();
    if parts.iter().all(|(occur, _)| *occur == Occur::MustNot) {
        parts.push((Occur::Must, Box::new(ConstScoreQuery::new(Box::new(AllQuery), 0.0))));
    }
    let lookup: Box<dyn Lookup> = match parts.pop() {
        Some((Occur::Must, only)) if parts.is_empty() => only,
        last => Box::new(BooleanQuery::new(parts.into_iter().chain(last).collect())),
    };
    Ok(Plan { lookup, window, all, counted: single && spelling == Spelling::Exact, scored, clock })
}

/// Alternatives.
type Ways = Vec<Box<dyn Lookup>>;

struct Planner<'a> {
    fields: &'a Fields,
    searcher: &'a Searcher,
    spelling: Spelling,
    scored: bool,
    clock: Arc<Clock>,
}

impl Planner<'_> {
    fn clause(&self, clause: &Clause) -> tantivy::Result<Box<dyn Lookup>> {
        let text = self.fields.text;
        let terms: Vec<(usize, Term)> = clause.tokens.iter().map(|(at, word)| (*at as usize, Term::from_field_text(text, word))).collect();
        let mut ways: Ways = Vec::new();
        match terms.as_slice() {
            [(_, term)] => {
                let (typo, goes_on) = (self.spelling == Spelling::Typo && clause.fuzzy && !clause.negated, clause.prefix);
                // Without scores the beginning finds the word itself as well, and a single way is quicker than two.
                if self.scored || !(typo || goes_on) {
                    ways.push(Box::new(TermQuery::new(term.clone(), IndexRecordOption::WithFreqs)));
                }
                if typo {
                    let near = if clause.prefix { FuzzyTermQuery::new_prefix } else { FuzzyTermQuery::new };
                    ways.push(Box::new(ConstScoreQuery::new(Box::new(near(term.clone(), 1, true)), 0.1)));
                } else if goes_on && let Some((_, word)) = clause.tokens.first() {
                    ways.push(Box::new(ConstScoreQuery::new(Box::new(begins_with(text, word)), 0.1)));
                }
            }
            _ => {
                ways.push(Box::new(self.phrase(terms.clone())));
                if clause.prefix {
                    self.continued(clause, &terms, &mut ways)?;
                }
            }
        }
        if let Some(range) = clause.id {
            // Whoever pastes an id wants that exchange first.
            ways.push(Box::new(BoostQuery::new(Box::new(within(self.fields.id, range)), 100.0)));
            ways.push(Box::new(BoostQuery::new(Box::new(within(self.fields.conversation, range)), 10.0)));
        }
        Ok(any(ways))
    }

    fn phrase(&self, terms: Vec<(usize, Term)>) -> PatientPhrase {
        PatientPhrase(PhraseQuery::new_with_offset(terms), self.clock.clone())
    }

    /// The phrase with each word that begins as its last one does.
    fn continued(&self, clause: &Clause, terms: &[(usize, Term)], ways: &mut Ways) -> tantivy::Result<()> {
        let (Some((at, _)), Some((_, word))) = (terms.last(), clause.tokens.last()) else { return Ok(()) };
        let mut found: HashMap<Vec<u8>, u32> = HashMap::new();
        for segment in self.searcher.segment_readers() {
            let inverted = segment.inverted_index(self.fields.text)?;
            let mut stream = inverted.terms().range().ge(word.as_bytes()).lt(past(word).as_bytes()).into_stream()?;
            let mut seen = 0;
            while stream.advance() && seen < MAX_SCANNED {
                seen += 1;
                let docs = stream.value().doc_freq;
                match found.get_mut(stream.key()) {
                    Some(sum) => *sum += docs,
                    None => _ = found.insert(stream.key().to_vec(), docs),
                }
            }
        }
        found.remove(word.as_bytes());
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        for (word, _) in found.into_iter().take(MAX_CONTINUATIONS) {
            let Ok(word) = String::from_utf8(word) else { continue };
            let mut phrase = terms.to_vec();
            phrase.pop();
            phrase.push((*at, Term::from_field_text(self.fields.text, &word)));
            ways.push(Box::new(self.phrase(phrase)));
        }
        Ok(())
    }

    /// Filters of one kind are alternatives, different kinds narrow each other.
    fn filters(&self, filters: &[Filter], window: &mut Range<u64>, parts: &mut Vec<(Occur, Box<dyn Lookup>)>) {
        let mut kinds: Vec<(Discriminant<What>, Ways)> = Vec::new();
        for filter in filters {
            let lookup = match &filter.what {
                What::Before(at) => {
                    window.end = window.end.min(*at);
                    continue;
                }
                What::After(at) => {
                    window.start = window.start.max(*at);
                    continue;
                }
                what => self.filter(what),
            };
            let kind = discriminant(&filter.what);
            match kinds.iter_mut().find(|(k, _)| *k == kind && !filter.negated) {
                _ if filter.negated => parts.push((Occur::MustNot, lookup)),
                Some((_, ways)) => ways.push(lookup),
                None => kinds.push((kind, vec![lookup])),
            }
        }
        for (_, ways) in kinds {
            parts.push((Occur::Must, Box::new(ConstScoreQuery::new(any(ways), 0.0))));
        }
    }

    fn filter(&self, what: &What) -> Box<dyn Lookup> {
        let f = self.fields;
        match what {
            What::From(name) => exactly(f.from, name),
            What::To(name) => exactly(f.to, name),
            What::Agent(name) => any(vec![exactly(f.from, name), exactly(f.to, name)]),
            What::Status(word) => exactly(f.status, word),
            What::Conversation(range) => Box::new(within(f.conversation, *range)),
            What::Slower { ms, then } => {
                let waiting: Vec<(Occur, Box<dyn Lookup>)> =
                    vec![(Occur::Must, exactly(f.status, "pending")), (Occur::Must, Box::new(range(f.started, 0, *then)))];
                any(vec![Box::new(range(f.duration, *ms, u64::MAX)), Box::new(BooleanQuery::new(waiting))])
            }
            // Handed to the walk as its window.
            What::Before(_) | What::After(_) => Box::new(AllQuery),
        }
    }
}

fn any(mut ways: Ways) -> Box<dyn Lookup> {
    match ways.pop() {
        Some(only) if ways.is_empty() => only,
        last => Box::new(BooleanQuery::union(ways.into_iter().chain(last).collect())),
    }
}

fn exactly(field: Field, word: &str) -> Box<dyn Lookup> {
    Box::new(TermQuery::new(Term::from_field_text(field, word), IndexRecordOption::Basic))
}

fn range(field: Field, low: u64, high: u64) -> RangeQuery {
    RangeQuery::new(Bound::Included(Term::from_field_u64(field, low)), Bound::Included(Term::from_field_u64(field, high)))
}

fn within(field: Field, IdRange(low, high): IdRange) -> InvertedIndexRangeQuery {
    let term = |n: u128| Bound::Included(Term::from_field_bytes(field, &n.to_be_bytes()));
    InvertedIndexRangeQuery::new(term(low), term(high))
}

fn begins_with(field: Field, word: &str) -> InvertedIndexRangeQuery {
    InvertedIndexRangeQuery::new(Bound::Included(Term::from_field_text(field, word)), Bound::Excluded(Term::from_field_text(field, &past(word))))
}

/// The first text after all that begin with `word`: UTF-8 orders as its characters do.
fn past(word: &str) -> String {
    let mut chars: Vec<char> = word.chars().collect();
    while let Some(last) = chars.pop() {
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(last as u32 + 1) };
        if let Some(next) = next {
            chars.push(next);
            break;
        }
    }
    chars.into_iter().collect()
}
