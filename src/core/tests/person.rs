//! What a person does: answers and cancels for a bot, and stops bots from talking.

use super::*;
use crate::core::person::Pause;

fn pause(one: &str, other: Option<&str>) -> Pause {
    Pause { one: name(one), other: other.map(name), by: "owner".into(), at: Millis(0) }
}

#[test]
fn a_person_asks_under_a_name_of_its_own_and_the_bot_answers_it() {
    let mut scene = Scene::new("alice bob");
    scene.up("bob", 1);
    scene.hello(1, "b");
    assert_eq!(scene.ask("owner bob"), "asked r1, wake r1 at 1");
    assert_eq!(scene.reply("bob", 1, "here"), Replied::Taken);
    assert_eq!(scene.said(), "ended r1 ok, finish r1");
    scene.up("alice", 2);
    scene.ask("alice owner");
    assert!(matches!(scene.refusal(), Refusal::UnknownAgent { .. }), "nobody can ask a person");
}

#[test]
fn a_person_answers_in_the_bots_place_and_the_bot_may_stop() {
    let mut scene = Scene::new("alice bob");
    scene.up("bob", 1);
    scene.hello(1, "b");
    scene.ask("alice bob");
    let who: Arc<str> = "owner".into();
    let mut answer = |text: &str, n: u64| scene.relay.answer_as(Millis(1), &who, request(n), text.into(), &mut scene.out);
    assert_eq!(answer("  ", 1), Replied::Empty);
    assert!(matches!(answer(&"x".repeat(65), 1), Replied::TooLarge { .. }));
    assert_eq!(answer("not known", 2), Replied::Unknown);
    assert_eq!(answer("from a person", 1), Replied::Taken);
    assert_eq!(answer("twice", 1), Replied::Unknown);
    let Some(Effect::Record(Fact::Ended { end, .. })) = scene.out.iter().find(|e| matches!(e, Effect::Record(Fact::Ended { .. }))) else { panic!() };
    assert_eq!((&*end.text, end.by.as_deref()), ("from a person", Some("owner")));
    assert!(scene.said().ends_with("ended r1 ok, cancel r1 at 1, finish r1"));
    assert_eq!(scene.reply("bob", 1, "mine"), Replied::AlreadyAnswered);
}

#[test]
fn a_person_cancels_what_is_open_and_nothing_else() {
    let mut scene = Scene::new("alice bob");
    scene.up("bob", 1);
    scene.hello(1, "b");
    scene.ask("alice bob");
    let who: Arc<str> = "owner".into();
    assert!(scene.relay.cancel_as(Millis(1), &who, request(1), &mut scene.out));
    assert!(scene.said().ends_with("ended r1 cancelled, cancel r1 at 1, finish r1"));
    assert!(!scene.relay.cancel_as(Millis(1), &who, request(1), &mut scene.out));
    assert_eq!(scene.said(), "");
}

#[test]
fn a_paused_bot_is_asked_nothing_and_asks_nothing_and_what_is_open_goes_on() {
    let mut scene = Scene::new("alice bob carol");
    for (n, agent) in ["alice", "bob", "carol"].into_iter().enumerate() {
        scene.up(agent, n as u64 + 1);
        scene.hello(n as u64 + 1, agent);
    }
    scene.ask("alice bob");
    scene.relay.set_paused(vec![pause("bob", None)]);
    assert_eq!(scene.reply("bob", 1, "still"), Replied::Taken);
    for line in ["alice bob", "bob carol", "owner bob"] {
        scene.ask(line);
        assert_eq!(scene.refusal(), &Refusal::Paused { what: "bob".into() }, "{line}");
    }
    scene.ask("alice carol");
    assert_eq!(scene.verdict, Some(Verdict::Accepted));
}

#[test]
fn a_paused_pair_talks_to_everybody_but_each_other() {
    let mut scene = Scene::new("alice bob carol");
    for (n, agent) in ["alice", "bob", "carol"].into_iter().enumerate() {
        scene.up(agent, n as u64 + 1);
        scene.hello(n as u64 + 1, agent);
    }
    scene.relay.set_paused(vec![pause("alice", Some("bob"))]);
    for line in ["alice bob", "bob alice"] {
        scene.ask(line);
        assert_eq!(scene.refusal(), &Refusal::Paused { what: "alice and bob".into() }, "{line}");
    }
    for line in ["alice carol", "carol bob", "owner alice"] {
        scene.ask(line);
        assert_eq!(scene.verdict, Some(Verdict::Accepted), "{line}");
    }
}
