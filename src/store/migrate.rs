//! From one format of the store to the next, one function a version, in the transaction of the start. A step is never
//! changed once a release has made it; `tests/it/old` has real files of every format.

use redb::WriteTransaction;

use super::StoreError;

/// Takes a store from format `found` to this version's, step by step. Every table is there already.
pub(super) fn from(found: u64, write: &WriteTransaction) -> Result<(), StoreError> {
    if found < 2 {
        to_2(write)?;
    }
    if found < 3 {
        to_3(write)?;
    }
    Ok(())
}

/// Format 2 has the table of erasures and facts that erase. What format 1 holds is the same in it; an older version would
/// stop at such a fact, so the number keeps it away.
fn to_2(_write: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Format 3 has the table of answers that are to be handed over and the facts that fill and empty it. What was owed before
/// was in memory alone.
fn to_3(_write: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}
