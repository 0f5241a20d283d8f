//! The full-text index over all exchanges: what the search box and the chart on the page ask. Derived from the log, so it
//! may be deleted at any time; whoever feeds it (the engine) follows the log from `Index::cursor` and hands over records.
//! Knows neither store nor engine, holds no text of an exchange (only what is needed to find it), and is never in the way
//! of an ask. All of it is synchronous and CPU-bound: call it from a blocking thread.
//!
//! `query` and `parse` read what a person types; `fold` and `token` cut texts and queries alike; `plan`, `walk`, `top` and
//! `facets` run a query; `index` and `health` keep the files; `highlight` marks hits in a text.

mod clock;
mod codes;
mod facets;
mod figures;
mod fold;
mod health;
pub mod highlight;
mod index;
mod page;
mod parse;
mod plan;
mod query;
mod schema;
mod token;
mod top;
mod walk;
mod when;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use facets::{Bar, Facets};
pub use figures::AgentFigures;
pub use health::{Reason, glance};
pub use index::{Index, Opened, open};
pub use page::{BadCursor, Cursor, Found, MAX_PAGE, Order, PAGE, PageRequest};
pub use parse::OPERATORS;
pub use query::{Chip, MAX_CHARS, MAX_TERMS, Query};
pub use schema::LATE;
pub use when::Now;

/// Nothing here is ever the fault of what was searched for.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error("the search index {} is in use by another process", .0.display())]
    InUse(PathBuf),
    #[error("cannot {what} {}: {source}", .path.display())]
    Files { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the search index cannot {what}: {source}")]
    Tantivy { what: &'static str, source: tantivy::TantivyError },
    #[error("the search index is closed")]
    Closed,
}
