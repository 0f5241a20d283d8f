//! Pages of hits: how many, in which order, from where on. Owns the cursor and its textual form; never an offset, because
//! a page must not shift when new exchanges come in.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::core::ids::RequestId;

pub const PAGE: usize = 30;
pub const MAX_PAGE: usize = 200;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// By the moment of asking, the latest first; the id decides between equals.
    #[default]
    Newest,
    /// By relevance (BM25), then the newest.
    Best,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRequest {
    /// Held between 1 and `MAX_PAGE`.
    pub limit: usize,
    pub order: Order,
    /// Only what comes after this hit in the order.
    pub before: Option<Cursor>,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self { limit: PAGE, order: Order::Newest, before: None }
    }
}

/// The place of a hit in its order. Greater is earlier on the page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cursor {
    /// Bits of the score, which order as the score does because it is not negative; 0 in the order `Newest`.
    pub(super) score: u32,
    pub(super) started: u64,
    pub(super) id: RequestId,
}

impl Cursor {
    /// The cursor of an exchange in the order `Newest`: for lists that are continued by a search.
    #[must_use]
    pub fn of(started: crate::core::ids::Millis, id: RequestId) -> Self {
        Self { score: 0, started: started.0, id }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.score != 0 {
            write!(f, "{:x}.", self.score)?;
        }
        write!(f, "{:x}.{}", self.started, self.id.0.simple())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this is no place in a list; leave `before` out to begin at the top")]
pub struct BadCursor;

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let (rest, id) = text.rsplit_once('.').ok_or(BadCursor)?;
        let (score, started) = rest.rsplit_once('.').unwrap_or(("0", rest));
        Ok(Self {
            score: u32::from_str_radix(score, 16).map_err(|_| BadCursor)?,
            started: u64::from_str_radix(started, 16).map_err(|_| BadCursor)?,
            id: RequestId::parse(id).ok_or(BadCursor)?,
        })
    }
}

/// What a search found.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// This page, in order.
    pub ids: Vec<RequestId>,
    /// All hits, on whatever page; exact unless `partial`.
    pub total: u64,
    /// The cursor of the next page; `None` on the last.
    pub next: Option<Cursor>,
    /// Nothing had these words; these hits have words that differ in one letter.
    pub typo: bool,
    /// The deadline came first: the newest are here, `total` is what was counted until then.
    pub partial: bool,
    pub took: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text() {
        let id = RequestId::from_u128(7);
        for cursor in [Cursor { score: 0, started: 5, id }, Cursor { score: 1.5f32.to_bits(), started: u64::MAX, id }] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for bad in ["", ".", "x.y", "1.2.3", "1", "é.é"] {
            assert_eq!(bad.parse::<Cursor>(), Err(BadCursor), "{bad}");
        }
    }
}
