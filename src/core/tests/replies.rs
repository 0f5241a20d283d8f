//! What a bot hands in: answers, failures, second and late ones; and what those learn who are not asked.

use super::*;
use crate::core::exchange::{End, Late, Record};
use crate::core::outcome::Outcome;

fn asked() -> Scene {
    let mut s = Scene::new("a b c");
    s.up("b", 1);
    s.hello(1, "p");
    s.ask("a b");
    s
}

fn answer(text: &str) -> Reply {
    Reply::Answer(text.into())
}

#[test]
fn a_second_answer_is_told_so_and_changes_nothing() {
    let mut s = asked();
    s.reply("b", 1, "42");
    s.said();
    assert_eq!(s.reply("b", 1, "43"), Replied::AlreadyAnswered);
    assert_eq!(s.said(), "");
}

#[test]
fn the_same_call_sent_again_is_not_a_second_answer() {
    let mut s = asked();
    assert_eq!(s.reply_by("b", 1, answer("42"), Some("call-7")), Replied::Taken);
    s.said();
    assert_eq!(s.reply_by("b", 1, answer("42"), Some("call-7")), Replied::Taken);
    assert_eq!(s.said(), "");
}

#[test]
fn a_late_answer_is_kept_once_and_handed_over() {
    let mut s = asked();
    s.up("a", 2);
    s.hello(2, "pa");
    s.wait(1000);
    assert_eq!(s.reply_by("b", 1, answer("42"), Some("c1")), Replied::TakenLate);
    assert_eq!(s.said(), "owed r1, late r1, late answer r1 at 2");
    assert_eq!(s.reply_by("b", 1, answer("42"), Some("c1")), Replied::TakenLate);
    assert_eq!(s.reply("b", 1, "43"), Replied::AlreadyAnswered);
    assert_eq!(s.said(), "");
}

#[test]
fn an_answer_is_owed_to_an_asker_whose_call_has_returned_and_to_no_other() {
    let mut s = asked();
    assert!(s.relay.excuse(request(1)));
    s.reply("b", 1, "42");
    assert_eq!(s.said(), "owed r1, ended r1 ok, finish r1");
    assert!(!s.relay.excuse(request(1)), "it has ended");
    for (line, failed) in [("a b", false), ("a b", true), ("owner b", false)] {
        s.ask(line);
        let n = s.asked;
        let excused = line == "owner b" || failed;
        assert!(!excused || s.relay.excuse(request(n)));
        let reply = if failed { Reply::Failure("no".into()) } else { answer("42") };
        s.reply_by("b", n, reply, None);
        assert!(!s.said().contains("owed"), "{line}, failed: {failed}");
    }
}

#[test]
fn an_asker_without_the_frame_fetches_its_late_answer() {
    let mut s = asked();
    s.up("a", 2);
    s.mute(2);
    s.wait(1000);
    s.reply("b", 1, "42");
    assert_eq!(s.said(), "owed r1, late r1, late answer r1 owed");
}

#[test]
fn whoever_was_not_asked_learns_nothing() {
    let mut s = asked();
    s.ask("a b");
    s.reply("b", 2, "done");
    s.said();
    assert_eq!([1, 2].map(|n| s.reply("c", n, "42")), [Replied::Unknown, Replied::Unknown]);
    assert_eq!(s.reply("a", 1, "42"), Replied::Unknown);
    assert_eq!(s.said(), "");
}

#[test]
fn history_gives_a_stranger_what_an_unknown_id_gives() {
    let mut s = asked();
    s.wait(1000);
    let past = s.relay.recent.remove(&request(1)).unwrap();
    assert_eq!(s.reply("c", 1, "42"), Replied::AskHistory);
    assert_eq!(s.relay.late(Millis(1000), &name("c"), past, answer("42"), None, &mut s.out), Replied::Unknown);
    assert_eq!(s.said(), "");
}

#[test]
fn a_late_answer_by_way_of_history_is_taken_once() {
    let mut s = asked();
    s.wait(1000);
    let past = s.relay.recent.remove(&request(1)).unwrap();
    let mut late = |past| s.relay.late(Millis(1000), &name("b"), past, answer("42"), None, &mut s.out);
    assert_eq!(late(past.clone()), Replied::TakenLate);
    assert_eq!(late(past), Replied::AlreadyAnswered);
    assert_eq!(s.said(), "owed r1, late r1, late answer r1 owed");
}

#[test]
fn history_remembers_which_call_answered() {
    let mut s = asked();
    let asked = s.relay.open(request(1)).unwrap().asked.clone();
    let end = |outcome, call: Option<&str>| Some(Arc::new(End { outcome, text: "x".into(), at: Millis(1), call: call.map(Into::into), by: None }));
    let open = Record { asked, end: None, late: None, refused: false };
    assert_eq!(open.past(), None);
    let answered = Record { end: end(Outcome::Answered, Some("c1")), ..open.clone() };
    let late = Some(Arc::new(Late { answer: "42".into(), at: Millis(2), call: Some("c2".into()) }));
    let late = Record { end: end(Outcome::Timeout, None), late, ..open };
    s.relay.end(Millis(1), request(1), Outcome::Answered, "x".into(), None, &mut s.out);
    s.relay.recent.clear();
    let mut again =
        |record: &Record, call: &str| s.relay.late(Millis(3), &name("b"), record.past().unwrap(), answer("x"), Some(call.into()), &mut s.out);
    assert_eq!(again(&answered, "c1"), Replied::Taken);
    assert_eq!(again(&answered, "c9"), Replied::AlreadyAnswered);
    assert_eq!(again(&late, "c2"), Replied::TakenLate);
    assert_eq!(again(&late, "c9"), Replied::AlreadyAnswered);
}

#[test]
fn a_blank_answer_is_refused_and_the_question_stays_open() {
    let mut s = asked();
    assert_eq!(s.reply("b", 1, " \n"), Replied::Empty);
    assert_eq!(s.open(), [1]);
}

#[test]
fn an_answer_too_large_is_refused_and_a_shorter_one_taken() {
    let mut s = asked();
    assert_eq!(s.reply("b", 1, &"x".repeat(65)), Replied::TooLarge { bytes: 65, max: 64, limit: "max_answer_bytes" });
    assert_eq!(s.reply("b", 1, &"x".repeat(64)), Replied::Taken);
}

#[test]
fn a_turn_that_failed_ends_the_question_even_when_it_says_nothing_why() {
    let mut s = asked();
    assert_eq!(s.reply_by("b", 1, Reply::Failure(" ".into()), None), Replied::Taken);
    assert_eq!(s.said(), "ended r1 failed, finish r1");
}

#[test]
fn an_answer_after_a_failure_is_a_late_one() {
    let mut s = asked();
    s.reply_by("b", 1, Reply::Failure("interrupted".into()), None);
    s.said();
    assert_eq!(s.reply("b", 1, "42"), Replied::TakenLate);
    assert_eq!(s.said(), "owed r1, late r1, late answer r1 owed");
}

#[test]
fn a_bot_asked_by_another_spelling_of_its_name_answers_late_too() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.ask("a B");
    s.wait(1000);
    assert_eq!(s.reply("b", 1, "42"), Replied::TakenLate);
}

#[test]
fn what_is_remembered_of_ended_questions_is_bounded_in_bytes() {
    let mut s = Scene::with("a b", Limits { max_message_bytes: 16 << 20, ..limits() });
    s.up("b", 1);
    for n in 1..=6 {
        s.ask(&format!("a b key k{n} say {}", "x".repeat(15 << 20)));
        s.reply("b", n, "ok");
    }
    assert_eq!((s.relay.recent.len(), s.relay.recent_order.len(), s.relay.keys.len()), (4, 4, 4));
    assert_eq!(s.relay.recent_bytes, 4 * (15 << 20));
    assert_eq!(s.reply("b", 1, "again"), Replied::AskHistory);
}

#[test]
fn an_answer_that_grows_too_large_in_its_frame_is_refused() {
    let mut s = Scene::with("a b", Limits { max_frame_bytes: 1024 + 60, ..limits() });
    s.up("b", 1);
    assert_eq!(s.ask(&format!("a b say {}", "\n".repeat(31))), "refused r1 too_large");
    s.ask("a b");
    assert_eq!(s.reply("b", 2, &"\"".repeat(31)), Replied::TooLarge { bytes: 1086, max: 1084, limit: "max_frame_bytes" });
}

#[test]
fn a_question_that_cannot_be_recorded_is_given_up_once() {
    let mut s = asked();
    s.relay.abandon(s.at(), request(1), &mut s.out);
    s.relay.abandon(s.at(), request(1), &mut s.out);
    assert_eq!(s.said(), "ended r1 store_unavailable, finish r1");
}
