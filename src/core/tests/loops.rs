//! Bots that keep asking each other are stopped, each kind of loop by its limit, with the path shown; talk that is none is
//! left alone.

use super::*;
use crate::core::outcome::LoopRule;

/// All agents are up, each at the connection of its place in the list.
fn scene(agents: &str, limits: Limits) -> Scene {
    let mut s = Scene::with(agents, limits);
    agents.split(' ').zip(1..).for_each(|(agent, n)| drop(s.up(agent, n)));
    s
}

impl Scene {
    /// Asks and answers at once; whether it began.
    fn turn(&mut self, line: &str) -> bool {
        self.ask(line);
        let begun = self.verdict == Some(Verdict::Accepted);
        if begun {
            let (to, n) = (line.split(' ').nth(1).unwrap(), self.asked);
            assert_eq!(self.reply(to, n, "fine"), Replied::Taken, "{line}");
        }
        begun
    }

    fn rule(&self) -> (LoopRule, String) {
        match self.refusal() {
            Refusal::LoopLimit { rule, path, .. } => (*rule, path.iter().map(AgentName::as_str).collect::<Vec<_>>().join(" ")),
            other => panic!("{other:?}"),
        }
    }
}

fn few() -> Limits {
    Limits { max_turns_per_conversation: 5, max_asks_per_pair_per_hour: 3, max_asks_per_root: 4, ..limits() }
}

#[test]
fn a_clarifying_question_back_and_an_exchange_of_four_turns_go_on() {
    let mut s = scene("a b", few());
    s.ask("a b");
    assert_eq!(s.ask("b a in 1"), "asked r2, wake r2 at 1");
    assert_eq!((s.reply("a", 2, "blue"), s.reply("b", 1, "done")), (Replied::Taken, Replied::Taken));
    assert!(s.turn("a b in 1") && s.turn("b a in 1"));
}

#[test]
fn one_conversation_does_not_go_on_for_ever() {
    let mut s = scene("a b", few());
    assert!(s.turn("a b"));
    assert!((0..4).all(|_| s.turn("a b in 1")));
    assert!(!s.turn("a b in 1"));
    assert_eq!(s.rule(), (LoopRule::Turns, "a b".into()));
    let text = s.refusal().to_string();
    assert!(text.contains("max_turns_per_conversation = 5") && text.contains("a -> b"), "{text}");
    assert!(s.turn("a b"), "another conversation may begin");
}

#[test]
fn questions_that_wait_behind_each_other_are_one_turn() {
    let mut s = scene("a b", Limits { max_turns_per_conversation: 2, ..limits() });
    s.ask("a b");
    (0..4).for_each(|_| drop(s.ask("a b in 1")));
    assert_eq!(s.verdict, Some(Verdict::Accepted));
}

#[test]
fn a_conversation_that_rested_counts_anew() {
    let mut s = scene("a b", few());
    s.turn("a b");
    (0..4).for_each(|_| assert!(s.turn("a b in 1")));
    s.now += 30 * 60 * 1000 - 1;
    assert!(!s.turn("a b in 1"), "a refused question is no rest's end, and it is not over");
    s.now += 1;
    assert!((0..5).all(|_| s.turn("a b in 1")) && !s.turn("a b in 1"));
}

#[test]
fn a_goodbye_that_is_asked_anew_each_time_is_stopped() {
    let mut s = scene("a b", few());
    let begun = (0..20).take_while(|n| s.turn(if n % 2 == 0 { "a b" } else { "b a" })).count();
    assert_eq!((begun, s.rule()), (6, (LoopRule::Pair, "a b a".into())));
    s.now += 1_200_000;
    assert!(s.turn("a b") && s.turn("b a") && !s.turn("a b"), "a third of an hour is one round more");
}

#[test]
fn a_circle_over_three_is_stopped_with_its_path() {
    let mut s = scene("a b c", few());
    let begun = (0..30).take_while(|n| s.turn(["a b", "b c", "c a"][n % 3])).count();
    assert_eq!((begun, s.rule()), (9, (LoopRule::Pair, "a b c a".into())));
    assert!(s.refusal().to_string().contains("a -> b -> c -> a"), "{}", s.refusal());
    assert!(s.turn("b a"), "what is no part of the circle goes on");
}

#[test]
fn many_questions_one_way_are_no_loop_nor_is_a_question_back_now_and_then() {
    let mut s = scene("a b c", few());
    assert!(s.turn("b a") && s.turn("b c"));
    assert!((0..50).all(|_| s.turn("a b")));
}

#[test]
fn one_question_leads_to_so_many_and_no_more_and_its_end_frees_them() {
    let mut s = scene("a b c", Limits { max_asks_per_root: 4, ..limits() });
    s.ask("a b");
    assert!((0..3).all(|_| s.turn("b c")));
    assert!(!s.turn("b c"));
    assert_eq!(s.rule(), (LoopRule::Root, "a b c".into()));
    assert!(s.turn("a c"), "another root is not concerned");
    s.reply("b", 1, "done");
    assert!(s.turn("b c"));
    assert_eq!(s.relay.loops.sizes(), (0, 0));
}

#[test]
fn a_chain_in_which_each_asks_two_is_stopped_by_the_number_of_its_questions() {
    let mut s = scene("a b c d", Limits { max_asks_per_root: 5, max_depth: 9, ..limits() });
    s.ask("a b");
    for line in ["b c", "b d", "c d", "d c"] {
        s.ask(line);
        assert_eq!(s.verdict, Some(Verdict::Accepted), "{line}");
    }
    s.ask("c b");
    assert_eq!(s.rule().0, LoopRule::Root);
}

#[test]
fn what_a_person_clears_may_go_on() {
    let mut s = scene("a b", few());
    while s.turn("a b") && s.turn("b a") {}
    let stopped = s.parse("a b");
    s.relay.ask(s.at(), stopped, &mut s.out);
    let asked = Scene::asked(s.out.last().unwrap()).clone();
    s.relay.clear_loop(&asked);
    assert!((0..3).all(|_| s.turn("a b")) && !s.turn("b a in 99"));

    let mut s = scene("a b", few());
    s.turn("a b");
    while s.turn("a b in 1") {}
    let stopped = s.parse("a b in 1");
    s.relay.ask(s.at(), stopped, &mut s.out);
    let asked = Scene::asked(s.out.last().unwrap()).clone();
    s.relay.clear_loop(&asked);
    assert!((0..5).all(|_| s.turn("a b in 1")) && !s.turn("a b in 1"));
}

#[test]
fn the_chain_of_an_open_question_is_counted_after_a_restart_too() {
    let mut old = scene("a b c", few());
    old.ask("a b");
    let root = Scene::asked(&Effect::Record(Fact::Asked(old.relay.open(request(1)).unwrap().asked.clone()))).clone();
    let mut s = scene("a b c", few());
    (s.asked, s.threads) = (1, old.threads);
    let holders = vec!["p".into()];
    s.relay.restore(s.at(), vec![crate::core::relay::Restored { asked: root, queued: None, holders, attempt: 1 }]);
    assert!((0..3).all(|_| s.turn("b c")) && !s.turn("b c"));
    assert_eq!(s.rule(), (LoopRule::Root, "a b c".into()));
}

#[test]
fn counts_are_bounded_whatever_is_asked() {
    let mut s = scene("a b", Limits { max_asks_per_pair_per_hour: 1_000_000, ..limits() });
    for _ in 0..20_000 {
        s.now += 1;
        assert!(s.turn("a b"));
        s.out.clear();
    }
    assert!(s.relay.loops.counted() <= 16_384 + 1);
}

#[test]
fn a_person_who_answers_in_a_bots_place_takes_part_and_the_turns_count_anew() {
    let mut s = scene("a b", few());
    assert!(s.turn("a b") && (0..3).all(|_| s.turn("a b in 1")));
    s.ask("a b in 1");
    assert_eq!(s.relay.answer_as(Millis(s.now), &"owner".into(), request(5), "by hand".into(), &mut s.out), Replied::Taken);
    assert!((0..5).all(|_| s.turn("a b in 1")) && !s.turn("a b in 1"));
    assert_eq!(s.rule().0, LoopRule::Turns);
}
