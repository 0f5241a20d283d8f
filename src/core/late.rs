//! Late answers of which an asker hears with a result of the same conversation: which ones, told with one result and no
//! other. A rule over positions in the log, so that it says the same after a restart and to a call that is sent again.

use super::exchange::Record;
use super::ids::{RequestId, Seq};

/// An exchange of a conversation and where in the log it ended and was answered late; 0 where it did not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    pub record: Record,
    pub ended: Seq,
    pub late: Seq,
}

/// The exchanges of the thread whose late answers came after the asker's result before this one, and before this one.
#[must_use]
pub fn heard_with(id: RequestId, thread: &[Placed]) -> Vec<&Placed> {
    let Some(this) = thread.iter().find(|p| p.record.asked.id == id && p.ended > Seq(0)) else { return Vec::new() };
    let same_asker = |p: &&Placed| p.record.asked.from == this.record.asked.from && !p.record.refused;
    let before = thread.iter().filter(same_asker).map(|p| p.ended).filter(|ended| *ended < this.ended).max().unwrap_or(Seq(0));
    thread.iter().filter(same_asker).filter(|p| before < p.late && p.late < this.ended).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::exchange::{Asked, Trail, WhenOffline};
    use crate::core::ids::{AgentName, ConversationId, Millis};

    fn placed(id: u128, from: &str, ended: u64, late: u64) -> Placed {
        let from = AgentName::parse(from).unwrap();
        let asked = Asked {
            id: RequestId::from_u128(id),
            conversation: ConversationId::from_u128(1),
            begins: false,
            from: from.clone(),
            to: "bob".into(),
            message: "q".into(),
            at: Millis(id as u64),
            when_offline: WhenOffline::Fail,
            trail: Trail { parent: None, root: RequestId::from_u128(id), origin: from.clone(), path: [from].into() },
            key: None,
            traceparent: None,
        };
        let record = Record { asked: Arc::new(asked), end: None, late: None, refused: false };
        Placed { record, ended: Seq(ended), late: Seq(late) }
    }

    fn heard(id: u128, thread: &[Placed]) -> Vec<u128> {
        heard_with(RequestId::from_u128(id), thread).iter().map(|p| p.record.asked.id.as_u128()).collect()
    }

    #[test]
    fn a_late_answer_is_told_with_the_next_result_and_with_no_other() {
        let thread = [placed(1, "alice", 2, 5), placed(2, "alice", 8, 0), placed(3, "alice", 11, 0), placed(4, "alice", 0, 0)];
        assert_eq!(heard(2, &thread), [1]);
        assert_eq!((heard(1, &thread), heard(3, &thread), heard(4, &thread)), (vec![], vec![], vec![]));
    }

    #[test]
    fn of_results_that_were_waited_for_at_once_the_first_tells() {
        // Asked as 2 and 3 before the late answer came; 3 ended first.
        let thread = [placed(1, "alice", 2, 5), placed(2, "alice", 8, 0), placed(3, "alice", 7, 0)];
        assert_eq!((heard(3, &thread), heard(2, &thread)), (vec![1], vec![]));
    }

    #[test]
    fn what_the_other_side_asked_and_what_was_refused_tells_nothing() {
        let mut refused = placed(3, "alice", 6, 0);
        refused.record.refused = true;
        let thread = [placed(1, "alice", 2, 5), placed(2, "bob", 7, 0), refused, placed(4, "alice", 9, 0)];
        assert_eq!((heard(2, &thread), heard(4, &thread)), (vec![], vec![1]));
    }
}
