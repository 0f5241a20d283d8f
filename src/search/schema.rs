//! The shape of a document: which fields there are, how a record becomes one, and the numbers that stand for status words
//! in the columns. Owns the index's version; never reads or writes a file.

use std::sync::LazyLock;

use tantivy::schema::{FAST, Field, INDEXED, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::TextAnalyzer;
use tantivy::{TantivyDocument, Term};
use uuid::Uuid;

use super::fold::{beginning, folded};
use super::token::Cutter;
use crate::core::exchange::Record;
use crate::core::outcome::Outcome;

/// In the directory's name. Raise it with every change of a field, of folding, of the tokenizer or of `STATUS_WORDS`: the
/// index is then built anew beside the old one's grave.
pub(super) const VERSION: u32 = 1;

const TOKENIZER: &str = "bridge";

/// The word for an exchange whose answer came after its end; it has its outcome's word as well.
pub const LATE: &str = "late";

/// Names are looked up by at most so many bytes: who asks for an agent that is none may write a novel.
const MAX_AGENT: usize = 128;

/// Every status word; the place in the list is its number in the column `status_code`.
pub(super) static STATUS_WORDS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| std::iter::once("pending").chain(Outcome::ALL.map(Outcome::word)).chain([LATE]).collect());

/// Beside the number of the status: a late answer came.
pub(super) const LATE_BIT: u64 = 1 << 7;

#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    /// Sixteen bytes, so that an id is found by its beginning and replaced by the whole.
    pub(super) id: Field,
    pub(super) conversation: Field,
    pub(super) from: Field,
    pub(super) to: Field,
    pub(super) status: Field,
    pub(super) duration: Field,
    /// Message, answer or reason, late answer, and the names of both agents: one field, because a person does not know
    /// which of them holds the word.
    pub(super) text: Field,
    pub(super) started: Field,
    id_high: Field,
    id_low: Field,
    status_code: Field,
}

/// Columns by name, as tantivy opens them.
pub(super) mod column {
    pub(in crate::search) const STARTED: &str = "started";
    pub(in crate::search) const DURATION: &str = "duration";
    pub(in crate::search) const STATUS_CODE: &str = "status_code";
    pub(in crate::search) const ID_HIGH: &str = "id_high";
    pub(in crate::search) const ID_LOW: &str = "id_low";
    pub(in crate::search) const FROM: &str = "from";
    pub(in crate::search) const TO: &str = "to";
}

pub(super) fn schema() -> (Schema, Fields) {
    let mut b = Schema::builder();
    let number: NumericOptions = FAST.into();
    let text = TextFieldIndexing::default().set_tokenizer(TOKENIZER).set_index_option(IndexRecordOption::WithFreqsAndPositions);
    // Names and words are filters: their lengths say nothing about relevance.
    let name = TextFieldIndexing::default().set_tokenizer("raw").set_index_option(IndexRecordOption::Basic).set_fieldnorms(false);
    let name = TextOptions::default().set_indexing_options(name);
    let fields = Fields {
        id: b.add_bytes_field("id", INDEXED),
        conversation: b.add_bytes_field("conversation", INDEXED),
        from: b.add_text_field(column::FROM, name.clone().set_fast("raw")),
        to: b.add_text_field(column::TO, name.clone().set_fast("raw")),
        status: b.add_text_field("status", name),
        duration: b.add_u64_field(column::DURATION, number.clone()),
        text: b.add_text_field("text", TextOptions::default().set_indexing_options(text)),
        started: b.add_u64_field(column::STARTED, number.clone()),
        id_high: b.add_u64_field(column::ID_HIGH, number.clone()),
        id_low: b.add_u64_field(column::ID_LOW, number.clone()),
        status_code: b.add_u64_field(column::STATUS_CODE, number),
    };
    (b.build(), fields)
}

pub(super) fn register(index: &tantivy::Index) {
    index.tokenizers().register(TOKENIZER, TextAnalyzer::from(Cutter));
}

/// A name as fields and filters have it.
pub(super) fn agent_key(name: &str) -> String {
    // Folding may lengthen a text, hence twice: a novel is not folded whole.
    beginning(&folded(beginning(name.trim(), MAX_AGENT)), MAX_AGENT).to_owned()
}

impl Fields {
    pub(super) fn id_term(&self, id: Uuid) -> Term {
        Term::from_field_bytes(self.id, id.as_bytes())
    }

    pub(super) fn document(&self, record: &Record) -> TantivyDocument {
        let asked = &record.asked;
        let id = asked.id.as_u128();
        let mut doc = TantivyDocument::default();
        doc.add_bytes(self.id, asked.id.0.as_bytes());
        doc.add_bytes(self.conversation, asked.conversation.0.as_bytes());
        doc.add_text(self.from, agent_key(asked.from.as_str()));
        doc.add_text(self.to, agent_key(&asked.to));
        doc.add_u64(self.started, asked.at.0);
        doc.add_u64(self.id_high, (id >> 64) as u64);
        doc.add_u64(self.id_low, id as u64);
        doc.add_text(self.text, &asked.message);
        let code = STATUS_WORDS.iter().position(|word| *word == record.status()).unwrap_or_default() as u64;
        doc.add_text(self.status, record.status());
        if let Some(end) = &record.end {
            doc.add_u64(self.duration, end.at.since(asked.at));
            doc.add_text(self.text, &end.text);
        }
        if let Some(late) = &record.late {
            doc.add_text(self.status, LATE);
            doc.add_text(self.text, &late.answer);
        }
        doc.add_u64(self.status_code, code | if record.late.is_some() { LATE_BIT } else { 0 });
        doc.add_text(self.text, asked.from.as_str());
        doc.add_text(self.text, &asked.to);
        doc
    }
}
