//! The rules, scene by scene. The rig here gives agents by name, sockets and questions by number, and reads effects as
//! short words; a scene says what happens and then what the machine wanted done.

mod ledger;
mod limits;
mod loops;
mod model;
mod person;
mod presence;
mod refusals;
mod replies;
mod restart;
mod turns;

use std::collections::HashMap;
use std::sync::Arc;

use super::effect::{Ask, Effect, Fact, Place};
use super::exchange::{Asked, WhenOffline};
use super::ids::{AgentName, ConnectionId, ConversationId, Millis, RequestId};
use super::outcome::Refusal;
use super::policy::{Limits, Permissions};
use super::registry::{Features, Hello};
use super::relay::{Relay, Verdict};
use super::replies::{Replied, Reply};

fn name(text: &str) -> AgentName {
    AgentName::parse(text).unwrap()
}

/// Round numbers: a second of silence, 300 ms of grace, 2 s in the queue, 5 s at most.
fn limits() -> Limits {
    Limits {
        ask_timeout_ms: 1000,
        reconnect_grace_ms: 300,
        queue_ttl_ms: 2000,
        max_exchange_ms: 5000,
        max_message_bytes: 64,
        max_answer_bytes: 64,
        max_frame_bytes: 64 << 20,
        max_wakes_per_agent: 2,
        max_waiting_per_agent: 4,
        max_waiting_bytes_per_agent: 64 << 20,
        asks_per_minute: 100_000,
        max_open_asks_per_agent: 100,
        max_open_bytes_per_agent: 64 << 20,
        max_timeouts_in_a_row: 100,
        silent_rest_ms: 500,
        max_depth: 3,
        max_asks_per_root: 100,
        max_turns_per_conversation: 100,
        max_asks_per_pair_per_hour: 100,
    }
}

fn request(n: u64) -> RequestId {
    RequestId::from_u128(u128::from(n))
}

fn number(id: RequestId) -> u128 {
    id.as_u128()
}

fn conversation(n: u64) -> ConversationId {
    ConversationId::from_u128(u128::from(n))
}

fn said(effect: &Effect) -> String {
    let r = |id: &RequestId| format!("r{}", number(*id));
    match effect {
        Effect::Record(Fact::Asked(asked)) => format!("asked {}", r(&asked.id)),
        Effect::Record(Fact::Refused(asked, end)) => format!("refused {} {}", r(&asked.id), end.outcome.word()),
        Effect::Record(Fact::Queued { id, expires, .. }) => format!("queued {} till {}", r(id), expires.0),
        Effect::Record(Fact::Received { id, instance, .. }) => format!("{instance} has {}", r(id)),
        Effect::Record(Fact::Ended { id, end, .. }) => format!("ended {} {}", r(id), end.outcome.word()),
        Effect::Record(Fact::Late { id, .. }) => format!("late {}", r(id)),
        Effect::Record(Fact::Owed { id, .. }) => format!("owed {}", r(id)),
        Effect::Record(Fact::Taken { id, .. }) => format!("taken {}", r(id)),
        Effect::Record(Fact::Audit(event)) => format!("audit {}", event.kind.word()),
        Effect::Record(Fact::Erased(erasure)) => format!("erased {}", erasure.ids.len()),
        Effect::Record(Fact::Presence { agent, online, .. }) => format!("{agent} {}", if *online { "on" } else { "off" }),
        Effect::Wake { connection, wake } if wake.attempt == 1 => format!("wake {} at {}", r(&wake.asked.id), connection.0),
        Effect::Wake { connection, wake } => format!("wake {} at {} again", r(&wake.asked.id), connection.0),
        Effect::Finish { asked, .. } => format!("finish {}", r(&asked.id)),
        Effect::Cancel { connection, id } => format!("cancel {} at {}", r(id), connection.0),
        Effect::LateAnswer { connection: Some(connection), asked, .. } => format!("late answer {} at {}", r(&asked.id), connection.0),
        Effect::LateAnswer { connection: None, asked, .. } => format!("late answer {} owed", r(&asked.id)),
    }
}

struct Scene {
    relay: Relay,
    now: u64,
    asked: u64,
    out: Vec<Effect>,
    /// The two agents of each conversation; the number is that of its first question.
    threads: HashMap<u64, [AgentName; 2]>,
    verdict: Option<Verdict>,
}

impl Scene {
    fn new(agents: &str) -> Self {
        Self::with(agents, limits())
    }

    fn with(agents: &str, limits: Limits) -> Self {
        let mut relay = Relay::new(limits, Permissions::default());
        relay.set_agents(&agents.split(' ').map(name).collect::<Vec<_>>(), Permissions::default());
        Self { relay, now: 0, asked: 0, out: Vec::new(), threads: HashMap::new(), verdict: None }
    }

    fn at(&self) -> Millis {
        Millis(self.now)
    }

    /// What the machine wanted done since the last look.
    fn said(&mut self) -> String {
        self.out.drain(..).map(|effect| said(&effect)).collect::<Vec<_>>().join(", ")
    }

    /// Time passes and the timer rings; what the machine says then.
    fn wait(&mut self, ms: u64) -> String {
        self.now += ms;
        self.relay.tick(Millis(self.now), &mut self.out);
        self.said()
    }

    fn up(&mut self, agent: &str, connection: u64) -> String {
        self.relay.connected(self.at(), &name(agent), ConnectionId(connection), &mut self.out);
        self.said()
    }

    /// A bot that says which process it is; it understands every frame.
    fn hello(&mut self, connection: u64, instance: &str) -> String {
        let features = Features { answer: true, cancelled: true, restarting: true };
        let hello = Hello { adapter: None, instance: Some(instance.into()), features };
        self.relay.introduced(self.at(), ConnectionId(connection), Some(hello), &mut self.out);
        self.said()
    }

    /// An original bot: a second passes and it has said nothing.
    fn mute(&mut self, connection: u64) -> String {
        self.relay.introduced(self.at(), ConnectionId(connection), None, &mut self.out);
        self.said()
    }

    fn lost(&mut self, connection: u64) -> String {
        self.relay.disconnected(self.at(), ConnectionId(connection), false, &mut self.out);
        self.said()
    }

    fn bye(&mut self, connection: u64) -> String {
        self.relay.disconnected(self.at(), ConnectionId(connection), true, &mut self.out);
        self.said()
    }

    /// `"a b"` asks in a new conversation, `"a b in 1"` in that of question 1; `"queue"`, `"key K"` and `"say TEXT"` follow.
    fn ask(&mut self, line: &str) -> String {
        let ask = self.parse(line);
        self.hand_in(ask)
    }

    fn parse(&mut self, line: &str) -> Ask {
        self.asked += 1;
        let mut words = line.split(' ');
        let from = name(words.next().unwrap());
        let to: Arc<str> = words.next().unwrap().into();
        let fresh = conversation(self.asked);
        let message = format!("question {}", self.asked);
        let mut ask = Ask {
            id: request(self.asked),
            from,
            to,
            message: message.into(),
            conversation: Place::New(fresh),
            when_offline: WhenOffline::Fail,
            key: None,
            kept: None,
            traceparent: None,
        };
        while let Some(word) = words.next() {
            match word {
                "queue" => ask.when_offline = WhenOffline::Queue,
                "key" => ask.key = Some(words.next().unwrap().into()),
                "say" => ask.message = words.next().unwrap().into(),
                "in" => {
                    let given = words.next().unwrap();
                    let theirs = |n| self.threads.get(&n).map(|[a, b]| (conversation(n), a.clone(), b.clone()));
                    ask.conversation = Place::Named { given: given.into(), found: given.parse().ok().and_then(theirs), fresh };
                }
                other => panic!("what is {other}?"),
            }
        }
        ask
    }

    fn hand_in(&mut self, ask: Ask) -> String {
        let (n, from, to) = (self.asked, ask.from.clone(), ask.to.clone());
        let verdict = self.relay.ask(self.at(), ask, &mut self.out);
        if matches!(verdict, Verdict::Accepted | Verdict::Queued { .. }) {
            self.threads.entry(n).or_insert([from, name(&to)]);
        }
        self.verdict = Some(verdict);
        self.said()
    }

    fn refusal(&self) -> &Refusal {
        match &self.verdict {
            Some(Verdict::Refused(refusal)) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }

    fn reply(&mut self, from: &str, n: u64, answer: &str) -> Replied {
        self.reply_by(from, n, Reply::Answer(answer.into()), None)
    }

    fn reply_by(&mut self, from: &str, n: u64, reply: Reply, call: Option<&str>) -> Replied {
        self.relay.reply(self.at(), &name(from), request(n), reply, call.map(Into::into), &mut self.out)
    }

    fn heard(&mut self, connection: u64, n: u64) -> String {
        self.relay.heard(self.at(), ConnectionId(connection), request(n), &mut self.out);
        self.said()
    }

    fn open(&self) -> Vec<u128> {
        let mut open: Vec<u128> = self.relay.open.keys().map(|id| number(*id)).collect();
        open.sort_unstable();
        open
    }

    fn asked(effect: &Effect) -> &Arc<Asked> {
        match effect {
            Effect::Record(Fact::Asked(asked) | Fact::Refused(asked, _)) => asked,
            other => panic!("no question: {other:?}"),
        }
    }
}
