//! Conversations: they go on, they are private to their two agents, a bot is woken for one question of each at a time and
//! in order, and chains of questions cannot go round for ever.

use serde_json::json;

use crate::rig::{Relay, soon, text};

const NOBODYS: &str = "01937000-0000-7000-8000-000000000002";

#[tokio::test]
async fn a_conversation_goes_on_between_its_two_agents_and_nobody_else() {
    let relay = Relay::start("", &["alice", "bob", "carol"]).await;
    let (mut alice, mut bob, mut carol) = (relay.bot("alice").await, relay.bot("bob").await, relay.bot("carol").await);
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "first"}));
    let first = bob.wake().await;
    bob.answer(&first, "one").await;
    let conversation = text(&asking.await.unwrap(), "conversation_id").to_owned();

    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "second", "conversation_id": conversation}));
    let second = bob.wake().await;
    assert_eq!((text(&second, "conversation_id"), text(&second, "message")), (conversation.as_str(), "second"));
    bob.answer(&second, "two").await;
    assert_eq!(asking.await.unwrap()["conversation_id"], conversation.as_str());

    // The asked goes on with it the other way round.
    let asking = relay.caller("bob").asking(json!({"to": "alice", "message": "third", "conversation_id": conversation}));
    let third = alice.wake().await;
    assert_eq!((text(&third, "conversation_id"), text(&third, "from")), (conversation.as_str(), "bob"));
    alice.answer(&third, "three").await;
    assert_eq!(asking.await.unwrap()["answer"], "three");

    // Whoever is not in it reads the same about it as about one that is none.
    for (from, to) in [("carol", "bob"), ("carol", "alice"), ("alice", "carol")] {
        let ask = |id: &str| json!({"to": to, "message": "let me in", "conversation_id": id});
        let foreign = relay.caller(from).call("ask_agent", ask(&conversation)).await;
        let none = relay.caller(from).call("ask_agent", ask(NOBODYS)).await;
        let words = relay.caller(from).call("ask_agent", ask("our chat")).await;
        assert_eq!(text(&foreign, "error"), "unknown_conversation");
        assert_eq!(text(&foreign, "message").replace(&conversation, "ID"), text(&none, "message").replace(NOBODYS, "ID"));
        assert_eq!(text(&words, "message"), text(&none, "message").replace(NOBODYS, "our chat"));
    }
    bob.is_not_woken().await;
    carol.is_not_woken().await;
}

#[tokio::test]
async fn a_conversation_wakes_one_question_at_a_time_and_in_order() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let (alice, mut bob) = (relay.caller("alice"), relay.bot("bob").await);
    let asking = alice.asking(json!({"to": "bob", "message": "0"}));
    let mut wake = bob.wake().await;
    let conversation = text(&wake, "conversation_id").to_owned();
    let mut askings = vec![asking];
    for n in 1..=4 {
        askings.push(alice.asking(json!({"to": "bob", "message": n.to_string(), "conversation_id": conversation})));
        relay.on_record(&n.to_string()).await;
    }
    let listed = alice.call("list_agents", json!({})).await;
    assert_eq!(listed[1]["waiting"], 5);
    bob.is_not_woken().await;
    // Another conversation does not wait for this one.
    let aside = alice.asking(json!({"to": "bob", "message": "aside"}));
    let other = bob.wake().await;
    assert_eq!(text(&other, "message"), "aside");
    for n in 0..=4 {
        assert_eq!(text(&wake, "message"), n.to_string());
        bob.is_not_woken().await;
        bob.answer(&wake, &format!("answer {n}")).await;
        if n < 4 {
            wake = bob.wake().await;
        }
    }
    for (n, asking) in askings.into_iter().enumerate() {
        assert_eq!(soon("an answer", asking).await.unwrap()["answer"], format!("answer {n}"));
    }
    bob.answer(&other, "beside").await;
    assert_eq!(aside.await.unwrap()["answer"], "beside");
}

#[tokio::test]
async fn a_bot_is_woken_for_as_many_questions_as_it_has_hands() {
    let relay = Relay::start("[limits]\nmax_wakes_per_agent = 2\nmax_waiting_per_agent = 1", &["alice", "bob"]).await;
    let (alice, mut bob) = (relay.caller("alice"), relay.bot("bob").await);
    let mut askings = Vec::new();
    for n in 0..3 {
        askings.push(alice.asking(json!({"to": "bob", "message": format!("q{n}")})));
        relay.on_record(&format!("q{n}")).await;
    }
    let (first, second) = (bob.wake().await, bob.wake().await);
    bob.is_not_woken().await;
    let full = alice.ask("bob", "one too many").await;
    assert_eq!((text(&full, "error"), text(&full, "limit")), ("rate_limited", "max_waiting_per_agent"));
    bob.answer(&second, "b").await;
    let third = bob.wake().await;
    assert_eq!((text(&first, "message"), text(&second, "message"), text(&third, "message")), ("q0", "q1", "q2"));
    bob.answer(&first, "a").await;
    bob.answer(&third, "c").await;
    let mut answers = Vec::new();
    for asking in askings {
        answers.push(asking.await.unwrap()["answer"].clone());
    }
    assert_eq!(answers, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_chain_of_questions_is_counted_and_ends_at_its_limit() {
    let relay = Relay::start("[limits]\nmax_depth = 2", &["alice", "bob", "carol", "dave"]).await;
    let (mut bob, mut carol, mut dave) = (relay.bot("bob").await, relay.bot("carol").await, relay.bot("dave").await);
    let chain = relay.caller("alice").asking(json!({"to": "bob", "message": "1"}));
    let one = bob.wake().await;
    bob.begin_call("on", "ask_agent", json!({"to": "carol", "message": "2"})).await;
    let two = carol.wake().await;
    assert_eq!((&two["hops"], text(&two, "origin"), text(&two, "from")), (&json!(1), "alice", "bob"));
    // Over MCP it is the same chain: it follows from what the asker is answering.
    let deeper = relay.caller("carol").ask("dave", "3").await;
    assert_eq!((text(&deeper, "error"), text(&deeper, "limit")), ("loop_limit", "max_depth"));
    assert!(text(&deeper, "message").contains("alice -> bob -> carol -> dave"), "{deeper}");
    dave.is_not_woken().await;
    carol.answer(&two, "from carol").await;
    assert_eq!(bob.result_of("on").await["answer"], "from carol");
    bob.answer(&one, "from bob").await;
    assert_eq!(chain.await.unwrap()["answer"], "from bob");
    // Whoever has answered is in no chain any more.
    let free = relay.caller("carol").asking(json!({"to": "dave", "message": "4"}));
    let four = dave.wake().await;
    assert_eq!((&four["hops"], text(&four, "origin")), (&json!(0), "carol"));
    dave.answer(&four, "done").await;
    assert_eq!(free.await.unwrap()["answer"], "done");
}

#[tokio::test]
async fn two_bots_that_ask_each_other_back_are_told_before_they_wait_for_themselves() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let (mut alice, mut bob) = (relay.bot("alice").await, relay.bot("bob").await);
    alice.begin_call("a", "ask_agent", json!({"to": "bob", "message": "a"})).await;
    let a = bob.wake().await;
    let conversation = text(&a, "conversation_id");
    let back = |to: &str| json!({"to": to, "message": "back", "conversation_id": conversation});
    bob.begin_call("b", "ask_agent", back("alice")).await;
    let b = alice.wake().await;
    assert_eq!(b["hops"], 1);
    let refused = alice.call("ask_agent", back("bob")).await;
    assert_eq!(text(&refused, "error"), "loop_limit");
    assert!(text(&refused, "message").contains("alice -> bob -> alice -> bob"), "{refused}");
    alice.answer(&b, "inner").await;
    assert_eq!(bob.result_of("b").await["answer"], "inner");
    bob.answer(&a, "outer").await;
    assert_eq!(alice.result_of("a").await["answer"], "outer");
}
