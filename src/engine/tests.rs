//! Recorded before told, at the driver: on a disk whose syncs take as long as the test likes, whatever is not on disk yet is
//! not acknowledged to anybody, however often it is sent.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::poll;

use super::*;
use crate::core::replies::{Replied, Reply};
use crate::store::{Access, Faults};

/// Syncs wait while it is shut; a test that forgets to open it fails by them.
#[derive(Debug, Default)]
struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn set(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.opened.notify_all();
    }
}

impl Faults for Gate {
    fn before(&self, what: Access) -> io::Result<()> {
        if what == Access::Sync {
            let shut = self.shut.lock().unwrap();
            let (_shut, waited) = self.opened.wait_timeout_while(shut, Duration::from_secs(60), |shut| *shut).unwrap();
            assert!(!waited.timed_out(), "the gate stays shut");
        }
        Ok(())
    }
}

fn name(text: &str) -> AgentName {
    AgentName::parse(text).unwrap()
}

fn start(dir: &std::path::Path, gate: &Arc<Gate>) -> Arc<Engine> {
    let flags = crate::config::Flags { config: Some("/dev/null".into()), data_dir: Some(dir.to_owned()), ..Default::default() };
    let mut config = crate::config::load(&flags, &|_| None).unwrap();
    config.agents = ["alice", "bob"].map(|agent| crate::config::AgentEntry { name: name(agent), credential: None }).into();
    Engine::start(config, Store::open_on(dir, Some(gate.clone())).unwrap()).unwrap()
}

#[tokio::test]
async fn a_reply_sent_again_is_not_acknowledged_before_the_first_copy_is_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::default());
    let engine = start(dir.path(), &gate);
    let mut bob = engine.connect(&name("bob")).await.unwrap().unwrap();
    bob.introduce(None).await.unwrap();
    let request = AskRequest { to: "bob".into(), message: "what is it?".into(), ..AskRequest::default() };
    let Begun::Going(mut going) = engine.begin(&name("alice"), request).await.unwrap() else { panic!("not begun") };
    going.recorded().await;
    let Some(ToBot::Wake(wake)) = bob.queue.recv().await else { panic!("no wake") };

    gate.set(true);
    let id = wake.asked.id;
    let from = name("bob");
    let reply = || Box::pin(engine.reply(&from, id, Reply::Answer("this".into()), Some("call 1".into())));
    let (mut first, mut again) = (reply(), reply());
    let mut alice = Box::pin(engine.finish(going));
    assert!(matches!(poll!(&mut first), Poll::Pending), "acknowledged and not on disk");
    assert!(engine.relay().open(id).is_none(), "the rules have taken it");
    assert!(matches!(poll!(&mut again), Poll::Pending), "sent again, acknowledged and not on disk");
    assert!(matches!(poll!(&mut alice), Poll::Pending), "told and not on disk");

    gate.set(false);
    let taken = Kept { replied: Replied::Taken, recorded: true };
    assert_eq!((first.await.unwrap(), again.await.unwrap()), (taken.clone(), taken));
    let Ok(AskReport::Ended(ended)) = alice.await else { panic!("no answer") };
    assert_eq!((&*ended.end.text, ended.recorded), ("this", true));
    drop(bob);
    engine.stop().await;
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
}
