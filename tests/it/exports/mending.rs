//! What somebody must mend: keys, addresses, versions, single spans and rows; and that nothing of what waited is lost by it,
//! nor sent twice.

use std::time::Duration;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::{all_arrived, all_arrived_once, counted, counts, exchange, exchanges, id_of, is_tried_in_vain};
use crate::rig::{Answer, Collector, Relay, until};

const CURSORS: TableDefinition<'_, &str, u64> = TableDefinition::new("cursors");
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");

/// The cursors of the exports, of a relay that is stopped.
fn cursors(relay: &Relay) -> Vec<(String, u64)> {
    let database = Database::open(relay.path("data/bridge.redb")).unwrap();
    let table = database.begin_read().unwrap().open_table(CURSORS).unwrap();
    table.iter().unwrap().map(|row| row.unwrap()).map(|(name, at)| (name.value().to_owned(), at.value())).collect()
}

#[tokio::test]
async fn one_bad_span_is_set_aside_and_the_others_arrive() {
    let collector = Collector::start().await;
    let relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    collector.always(Answer::RefuseIf("poison"));
    let mut ids = exchanges(&relay, 7).await;
    let bad = exchange(&relay, "poison").await;
    ids.extend(exchanges(&relay, 7).await);
    all_arrived_once(&collector, &ids).await;
    until("it is told", async || relay.said().contains("refused for good").then_some(())).await;
    assert!(!counts(&collector).contains_key(&bad) && !relay.said().contains("poison"));
}

#[tokio::test]
async fn what_somebody_must_mend_is_told_once_with_the_remedy_and_nothing_is_lost() {
    for (status, remedy) in [(401, "look at the keys"), (405, "look at the address"), (418, "look at the address, and at what stands between")] {
        let collector = Collector::start().await;
        collector.always(Answer::Refuse(status, ""));
        let mut relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
        let ids = exchanges(&relay, 3).await;
        until("the mistake is told", async || relay.said().contains(remedy).then_some(())).await;
        assert_eq!(relay.said().matches("ERROR").count(), 1, "{}", relay.said());
        assert!(!relay.said().contains("sk-lf-secret"));
        assert_eq!(relay.get("/ready").await.0, 200);
        let (code, took) = relay.stop().await;
        assert!(code == Some(0) && took < Duration::from_secs(10), "{code:?} {took:?}");
        collector.always(Answer::Take);
        relay.up().await;
        all_arrived_once(&collector, &ids).await;
    }
}

#[tokio::test]
async fn a_corrected_key_sends_what_waited_and_another_destination_gets_only_what_the_former_had_not() {
    let (mut first, second) = (Collector::start().await, Collector::start().await);
    first.always(Answer::Refuse(401, ""));
    let mut relay = Relay::start(&first.langfuse("").replace("pk-lf-1", "pk-lf-mistyped"), &["alice"]).await;
    let mut ids = exchanges(&relay, 3).await;
    until("the mistake is told", async || relay.said().contains("look at the keys").then_some(())).await;
    relay.stop().await;
    first.always(Answer::Take);
    relay.configure(&first.langfuse(""), &["alice"]);
    relay.up().await;
    all_arrived_once(&first, &ids).await;
    until("it is told", async || relay.said().contains("waiting=\"3\"").then_some(())).await;
    assert_eq!(relay.said().matches("the destination has changed").count(), 1, "{}", relay.said());

    // From one project to another, and back.
    first.close().await;
    let moved = exchanges(&relay, 2).await;
    relay.stop().await;
    relay.configure(&second.langfuse(""), &["alice"]);
    relay.up().await;
    all_arrived_once(&second, &moved).await;
    relay.stop().await;
    first.open().await;
    relay.configure(&first.langfuse(""), &["alice"]);
    relay.up().await;
    ids.push(exchange(&relay, "back").await);
    all_arrived_once(&first, &ids).await;
    all_arrived_once(&second, &moved).await;
    relay.stop().await;
    assert_eq!(cursors(&relay).len(), 1);
}

/// It had one for each destination that it ever had.
#[tokio::test]
async fn the_cursors_of_an_older_relay_are_taken_over() {
    let collector = Collector::start().await;
    let mut relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    let mut ids = exchanges(&relay, 5).await;
    all_arrived_once(&collector, &ids).await;
    relay.stop().await;
    let own = cursors(&relay).pop().unwrap().0;
    // With its own among them it goes on there, else at the furthest.
    let others = ["langfuse:0011223344556677", "langfuse:8899aabbccddeeff"];
    for own_there in [true, false] {
        let at = cursors(&relay)[0].1;
        let kept = if own_there { [(others[0], at + 9), (own.as_str(), at)] } else { [(others[0], 1), (others[1], at)] };
        {
            let write = Database::open(relay.path("data/bridge.redb")).unwrap().begin_write().unwrap();
            {
                let mut table = write.open_table(CURSORS).unwrap();
                table.retain(|_, _| false).unwrap();
                kept.iter().for_each(|(name, at)| _ = table.insert(name, at).unwrap());
            }
            write.commit().unwrap();
        }
        relay.up().await;
        ids.push(exchange(&relay, "one more").await);
        all_arrived_once(&collector, &ids).await;
        relay.stop().await;
        assert_eq!(cursors(&relay).iter().map(|(name, _)| name).collect::<Vec<_>>(), [&own]);
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_told_once_and_the_others_go_out() {
    let mut collector = Collector::start().await;
    collector.close().await;
    let mut relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    let ids = exchanges(&relay, 3).await;
    relay.stop().await;
    {
        let write = Database::open(relay.path("data/bridge.redb")).unwrap().begin_write().unwrap();
        {
            let mut log = write.open_table(LOG).unwrap();
            let of_the_second = |bytes: &[u8]| bytes.starts_with(br#"{"t":"refused""#) && String::from_utf8_lossy(bytes).contains(&ids[1]);
            let row = log.iter().unwrap().map(|row| row.unwrap()).find(|(_, bytes)| of_the_second(bytes.value())).unwrap().0.value();
            log.insert(row, br#"{"t":"refused", and no more"#.as_slice()).unwrap();
        }
        write.commit().unwrap();
    }
    collector.open().await;
    relay.up().await;
    all_arrived_once(&collector, &[ids[0].clone(), ids[2].clone()]).await;
    let series = "export_spans_total{sink=\"langfuse\",outcome=\"rejected\"}";
    until("it is counted", async || (counted(&relay, series).await >= 1.0).then_some(())).await;
    let more = exchange(&relay, "more").await;
    all_arrived(&collector, &[more]).await;
    assert!(counted(&relay, series).await < 1.5);
    assert_eq!(relay.said().matches("cannot be read: they are left out").count(), 1, "{}", relay.said());
}

#[tokio::test]
async fn a_langfuse_that_is_too_old_is_named_at_the_start() {
    let collector = Collector::start().await;
    collector.be("3.80.0");
    let relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    until("it is told", async || relay.said().contains("this Langfuse is too old").then_some(())).await;
    assert!(relay.said().contains("3.80.0"));
}

#[tokio::test]
async fn a_langfuse_that_was_away_at_the_start_is_asked_its_version_when_it_is_there() {
    let mut collector = Collector::start().await;
    collector.be("3.80.0");
    collector.close().await;
    let relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    let id = exchange(&relay, "one").await;
    is_tried_in_vain(&relay).await;
    assert!(!relay.said().contains("too old"), "{}", relay.said());
    collector.open().await;
    all_arrived_once(&collector, &[id]).await;
    until("it is told", async || relay.said().contains("this Langfuse is too old").then_some(())).await;
}

#[tokio::test]
async fn a_history_is_exported_in_order_when_that_is_asked_for() {
    let collector = Collector::start().await;
    let mut relay = Relay::start("", &["alice"]).await;
    let old = exchanges(&relay, 250).await;
    relay.stop().await;
    relay.configure(&collector.langfuse(""), &["alice"]);
    relay.up().await;
    let new = exchange(&relay, "new").await;
    all_arrived_once(&collector, std::slice::from_ref(&new)).await;
    relay.stop().await;
    // Another project gets all of it, once.
    let second = Collector::start().await;
    relay.configure(&second.langfuse("start = \"all\""), &["alice"]);
    relay.up().await;
    let all = [old, vec![new]].concat();
    all_arrived_once(&second, &all).await;
    assert_eq!(second.spans().iter().map(id_of).collect::<Vec<_>>(), all);
    assert!(second.requests().iter().all(|r| r.spans.len() <= 100) && second.requests().len() <= 5);
    assert!(relay.said().contains("it gets the whole history"), "{}", relay.said());
    relay.again_after("stop").await;
    let last = exchange(&relay, "last").await;
    all_arrived_once(&second, &[all, vec![last]].concat()).await;
}
