//! Questions that are not begun, questions that are the same as another, and what is recorded of both.

use super::*;

fn online() -> Scene {
    let mut s = Scene::new("a b c");
    s.up("b", 1);
    s.up("c", 2);
    s
}

#[test]
fn refusals_are_on_record_and_wake_nobody() {
    let mut s = online();
    assert_eq!(s.ask("a zed"), "refused r1 unknown_agent");
    assert_eq!(s.ask("b b"), "refused r2 self_ask");
    assert_eq!(s.ask("b a"), "refused r3 agent_offline");
    assert_eq!(s.ask(&format!("a b say {}", "x".repeat(65))), "refused r4 too_large");
    assert_eq!(s.open(), [] as [u128; 0]);
}

#[test]
fn whom_the_owner_has_not_allowed_one_may_not_ask() {
    let mut s = online();
    let only_b = Permissions { may_ask: HashMap::from([(name("a"), [name("b")].into())]), notes: Vec::new() };
    s.relay.set_agents(&["a", "b", "c"].map(name), only_b);
    assert_eq!(s.ask("a c"), "refused r1 not_allowed");
    assert_eq!(s.ask("a b"), "asked r2, wake r2 at 1");
}

#[test]
fn a_foreign_conversation_and_an_unknown_one_read_the_same_and_leave_it_alone() {
    let mut s = online();
    s.ask("a b");
    let ask = s.parse("c b in 1");
    s.relay.ask(s.at(), ask, &mut s.out);
    assert_eq!(Scene::asked(&s.out[0]).conversation, conversation(2));
    assert_eq!(s.said(), "refused r2 unknown_conversation");
    s.ask("c b in 1");
    let foreign = s.refusal().to_string();
    s.ask("c b in 9");
    assert_eq!(s.refusal().to_string(), foreign.replace("\"1\"", "\"9\""));
}

#[test]
fn a_conversation_is_between_two_agents_in_both_directions() {
    let mut s = online();
    s.up("a", 3);
    s.ask("a b");
    assert_eq!(s.ask("b a in 1"), "asked r2, wake r2 at 3");
    assert_eq!(s.ask("a c in 1"), "refused r3 unknown_conversation");
}

#[test]
fn what_is_no_name_and_what_is_too_large_is_recorded_clipped() {
    let mut s = online();
    let ask = s.parse(&format!("a {} say {}", "é".repeat(1000), "ü".repeat(1000)));
    s.relay.ask(s.at(), ask, &mut s.out);
    let asked = Scene::asked(&s.out[0]);
    assert_eq!((asked.to.len(), asked.message.len()), (80, 64));
    s.ask(&format!("a b in {}", "x".repeat(1000)));
    assert!(s.refusal().to_string().len() < 250);
}

#[test]
fn a_full_line_takes_no_more() {
    let mut s = online();
    s.ask("a b");
    for _ in 0..4 {
        s.ask("a b in 1");
    }
    assert_eq!(s.ask("c b in 1"), "refused r6 unknown_conversation");
    assert_eq!(s.ask("a b in 1"), "refused r7 rate_limited");
}

#[test]
fn the_same_question_while_it_is_open_is_one_question() {
    let mut s = online();
    s.ask("a b say hi");
    assert_eq!(s.ask("a b say hi"), "");
    assert_eq!(s.verdict, Some(Verdict::Joined(request(1))));
    s.reply("b", 1, "hello");
    s.said();
    assert_eq!(s.ask("a b say hi"), "asked r3, wake r3 at 1");
}

#[test]
fn the_same_text_to_another_or_by_another_is_another_question() {
    let mut s = online();
    s.ask("a b say hi");
    assert_eq!(s.ask("a c say hi"), "asked r2, wake r2 at 2");
    assert_eq!(s.ask("c b say hi"), "asked r3, wake r3 at 1");
    assert_eq!(s.ask("a b in 1 say hi"), "asked r4");
}

#[test]
fn the_same_key_is_the_same_question_after_its_end_too() {
    let mut s = online();
    s.ask("a B key k say hi");
    s.reply("b", 1, "hello");
    s.said();
    assert_eq!(s.ask("a B key k say hi"), "");
    assert_eq!(s.verdict, Some(Verdict::Joined(request(1))));
    assert_eq!(s.ask("c b key k say hi"), "asked r3, wake r3 at 1");
}

#[test]
fn a_key_used_for_another_text_is_a_conflict() {
    let mut s = online();
    s.ask("a b key k say hi");
    assert_eq!(s.ask("a b key k say ho"), "refused r2 conflict");
    assert_eq!(*s.refusal(), Refusal::Conflict { first: request(1) });
}

#[test]
fn a_refused_question_does_not_use_up_its_key() {
    let mut s = Scene::new("a b");
    s.ask("a b key k say hi");
    s.up("b", 1);
    assert_eq!(s.ask("a b key k say hi"), "asked r2, wake r2 at 1");
}

#[test]
fn a_key_lives_a_day() {
    let mut s = online();
    s.ask("a b key k say hi");
    s.reply("b", 1, "hello");
    s.said();
    s.now += 24 * 60 * 60 * 1000;
    assert_eq!(s.ask("a b key k say ho"), "asked r2, wake r2 at 1");
    assert_eq!(s.ask("a b key k say ho"), "");
    assert_eq!(s.verdict, Some(Verdict::Joined(request(2))));
}

#[test]
fn a_key_used_anew_outlives_the_memory_of_its_first_question() {
    let mut s = Scene::with("a b", Limits { max_message_bytes: 16 << 20, ..limits() });
    s.up("b", 1);
    let large = "x".repeat(15 << 20);
    s.ask(&format!("a b key k say {large}"));
    s.reply("b", 1, "hello");
    s.now += 24 * 60 * 60 * 1000;
    for n in 2..=6 {
        s.ask(&if n == 2 { "a b key k say ho".to_owned() } else { format!("a b key k{n} say {large}") });
        s.reply("b", n, "hello");
    }
    assert_eq!(s.reply("b", 1, "again"), Replied::AskHistory);
    s.ask("a b key k say ho");
    assert_eq!(s.verdict, Some(Verdict::Joined(request(2))));
}

#[test]
fn a_key_that_only_history_knows_joins_too() {
    let mut s = online();
    s.ask("a b key k say hi");
    s.reply("b", 1, "hello");
    let kept = s.relay.keys.drain().next().map(|(_, asked)| asked);
    s.said();
    let again = Ask { kept, ..s.parse("a b key k say hi") };
    assert_eq!(s.hand_in(again), "");
    assert_eq!(s.verdict, Some(Verdict::Joined(request(1))));
}

#[test]
fn questions_under_keys_of_their_own_are_their_own_though_they_read_the_same() {
    let mut s = online();
    s.ask("a b key k1 say hi");
    assert_eq!(s.ask("a b key k2 say hi"), "asked r2, wake r2 at 1");
    s.reply("b", 1, "one");
    s.reply("b", 2, "two");
    assert!(s.relay.twins.is_empty());
}

#[test]
fn a_chain_that_is_too_long_is_stopped_with_its_path() {
    let mut s = Scene::new("a b c d e");
    ["b", "c", "d", "e"].iter().zip(1..).for_each(|(agent, n)| drop(s.up(agent, n)));
    s.ask("a b");
    s.ask("b c");
    s.ask("c d");
    assert_eq!(s.ask("d e"), "refused r4 loop_limit");
    assert!(s.refusal().to_string().contains("a -> b -> c -> d -> e"), "{}", s.refusal());
}

#[test]
fn a_question_that_would_wait_for_itself_is_stopped() {
    let mut s = online();
    s.up("a", 3);
    s.ask("a b");
    s.ask("b a in 1");
    assert_eq!(s.ask("a b in 1"), "refused r3 loop_limit");
}

#[test]
fn a_chain_that_waits_with_every_hand_of_the_target_is_stopped() {
    let mut s = Scene::with("a b", Limits { max_wakes_per_agent: 1, max_depth: 9, ..limits() });
    s.up("a", 1);
    s.up("b", 2);
    s.ask("a b");
    s.ask("b a");
    assert_eq!(s.ask("a b"), "refused r3 loop_limit");
}
