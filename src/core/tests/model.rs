//! Thousands of random scripts against the promises in `ledger`: every accepted question ends exactly once, nothing is told
//! before it is on record, no process has a question twice, nothing is left behind; also when the relay stops between
//! any two effects and starts again from what is on record. A failure prints the seed: `scripts(seed, 1, ..)` repeats it.

use super::ledger::{Ledger, Line, Socket, in_order};
use super::*;
use crate::core::exchange::Phase;

/// splitmix64
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.roll(n) == 0
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { Some(all[self.roll(all.len())].clone()) }
    }
}

const AGENTS: [&str; 4] = ["a", "b", "c", "d"];

fn narrow() -> Limits {
    let few = Limits { max_timeouts_in_a_row: 2, max_open_asks_per_agent: 5, asks_per_minute: 200, ..limits() };
    Limits { max_asks_per_root: 3, max_turns_per_conversation: 3, max_asks_per_pair_per_hour: 2, ..few }
}

struct World {
    dice: Dice,
    relay: Relay,
    ledger: Ledger,
    limits: Limits,
    now: Millis,
    /// Ids drawn, of anything.
    drawn: u64,
    sockets: Vec<Socket>,
    /// The living process of each agent; the last agent's bot is an original one.
    processes: [Arc<str>; 4],
    /// One batch in so many is cut short by a crash; 0 for never.
    crash: usize,
}

impl World {
    fn new(seed: u64, crash: usize) -> Self {
        // In every other script the limits against loops and floods are narrow.
        let limits = if seed.is_multiple_of(2) { narrow() } else { limits() };
        let relay = Relay::new(limits.clone(), Permissions::default());
        let processes = AGENTS.map(|a| format!("{a}0").into());
        let mut world =
            Self { dice: Dice(seed), relay, ledger: Ledger::default(), limits, now: Millis(1000), drawn: 0, sockets: Vec::new(), processes, crash };
        world.restart();
        world
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    /// The driver's part: records first, then the rest; or a crash in between.
    fn carry(&mut self, batch: Vec<Effect>) {
        let (records, rest): (Vec<_>, Vec<_>) = batch.iter().partition(|e| matches!(e, Effect::Record(_)));
        let cut = if self.crash > 0 && self.dice.one_in(self.crash) { self.dice.roll(batch.len() + 1) } else { usize::MAX };
        for effect in records.iter().take(cut) {
            if let Effect::Record(fact) = effect {
                self.ledger.record(fact);
            }
        }
        let told = cut.saturating_sub(records.len());
        rest.iter().take(told).for_each(|effect| self.ledger.tell(effect, &self.sockets));
        if cut == usize::MAX {
            in_order(&batch);
            self.ledger.check(&self.relay, &self.sockets);
        } else {
            self.restart();
        }
    }

    fn restart(&mut self) {
        self.sockets.clear();
        self.relay = Relay::new(self.limits.clone(), Permissions::default());
        self.relay.set_agents(&AGENTS.map(name), Permissions::default());
        for (agent, (seen, online)) in &self.ledger.online {
            self.relay.recall(self.now, agent, *seen, *online);
        }
        self.relay.restore(self.now, self.ledger.restored());
        self.ledger.lines.iter_mut().filter(|line| line.end.is_none()).for_each(Line::begin_anew);
        self.ledger.check(&self.relay, &self.sockets);
    }

    fn input<T>(&mut self, f: impl FnOnce(&mut Relay, Millis, &mut Vec<Effect>) -> T) -> (T, Vec<Effect>) {
        let mut out = Vec::new();
        let result = f(&mut self.relay, self.now, &mut out);
        (result, out)
    }

    fn any_request(&mut self) -> RequestId {
        let known: Vec<RequestId> = self.ledger.lines.iter().rev().take(12).map(|l| l.asked.id).collect();
        let stray = request(1_000_000 + self.drawn);
        if self.dice.one_in(10) { stray } else { self.dice.of(&known).unwrap_or(stray) }
    }

    fn step(&mut self) {
        let pause = [0, 5, 60, 400][self.dice.roll(4)];
        self.now = self.now.plus(self.dice.roll(pause + 1) as u64);
        match self.dice.roll(30) {
            0..8 => self.ask(),
            8..13 => self.reply(),
            13..17 => self.heard(),
            17..22 => self.connect(),
            22..25 => self.disconnect(),
            25 => self.cancel(),
            26 => self.new_process(),
            27 if self.dice.one_in(3) => self.restart(),
            27 => self.reload(),
            28 => self.intervene(),
            29 if self.dice.one_in(2) => self.excuse(),
            _ => self.tick(),
        }
    }

    fn ask(&mut self) {
        let (n, fresh) = (self.draw(), conversation(self.draw()));
        let from = name(AGENTS[self.dice.roll(4)]);
        let to: Arc<str> = ["a", "b", "c", "d", "b", "B", "zed"][self.dice.roll(7)].into();
        let key: Option<Arc<str>> = self.dice.one_in(4).then(|| ["k1", "k2"][self.dice.roll(2)].into());
        let lines: Vec<Arc<Asked>> = self.ledger.lines.iter().rev().take(8).map(|l| l.asked.clone()).collect();
        let conversation = match self.dice.of(&lines).filter(|_| self.dice.one_in(2)) {
            None => Place::New(fresh),
            Some(first) => {
                let found = (first.conversation, first.from.clone(), name(&first.to));
                Place::Named { given: "x".into(), found: (!self.dice.one_in(9)).then_some(found), fresh }
            }
        };
        let kept = |key: &Arc<str>| lines.iter().find(|a| a.from == from && a.key.as_ref() == Some(key)).cloned();
        let ask = Ask {
            id: request(n),
            to,
            message: if self.dice.one_in(3) { "same".into() } else { format!("question {n}").into() },
            conversation,
            when_offline: if self.dice.one_in(3) { WhenOffline::Queue } else { WhenOffline::Fail },
            kept: key.as_ref().and_then(kept),
            from,
            key,
            traceparent: None,
        };
        let (verdict, out) = self.input(|relay, now, out| relay.ask(now, ask, out));
        let recorded = |want: &str| out.first().is_some_and(|e| said(e).starts_with(want));
        match verdict {
            Verdict::Accepted | Verdict::Queued { .. } => assert!(recorded("asked"), "{out:?}"),
            Verdict::Refused(_) => assert!(recorded("refused") && out.len() == 1, "{out:?}"),
            Verdict::Joined(first) => assert!(out.is_empty() && self.ledger.line(first).is_some(), "joined {first}"),
        }
        self.carry(out);
    }

    fn reply(&mut self) {
        let id = self.any_request();
        let right = self.ledger.line(id).map(|line| name(&line.asked.to)).filter(|_| !self.dice.one_in(6));
        let from = right.unwrap_or_else(|| name(AGENTS[self.dice.roll(4)]));
        let failure = self.dice.one_in(5);
        let reply = if failure { Reply::Failure("no".into()) } else { Reply::Answer("42".into()) };
        let (mut replied, mut out) = self.input(|relay, now, out| relay.reply(now, &from, id, reply.clone(), None, out));
        let line = self.ledger.line(id);
        if replied == Replied::AskHistory {
            replied = match line.and_then(|line| line.past()) {
                None => Replied::Unknown,
                Some(past) => self.relay.late(self.now, &from, past, reply, None, &mut out),
            };
        }
        let asked = line.is_some_and(|line| *line.asked.to == *from.as_str());
        let answered = line.is_some_and(|l| l.late.is_some() || l.end.as_ref().is_some_and(|end| end.outcome.word() == "ok"));
        let open = line.is_some_and(|line| line.end.is_none());
        let right = match replied {
            Replied::Unknown => !asked && out.is_empty(),
            Replied::Taken => asked && open,
            Replied::TakenLate => asked && !open && !answered && !failure,
            Replied::AlreadyAnswered => asked && !open && (answered || failure) && out.is_empty(),
            _ => false,
        };
        assert!(right, "{from} replies to {id} ({asked}, {open}, {answered}): {replied:?}, {out:?}");
        self.carry(out);
    }

    fn heard(&mut self) {
        let id = self.any_request();
        let Some(socket) = self.dice.of(&self.sockets) else { return };
        let beat = self.dice.one_in(2);
        let (taken, out) = self.input(|relay, now, out| match beat {
            true => relay.heartbeat(now, socket.id, id, None, out),
            false => relay.heard(now, socket.id, id, out),
        });
        let asked = self.ledger.line(id).is_some_and(|l| l.end.is_none() && *l.asked.to == *socket.agent.as_str());
        assert!(asked || (!taken && out.is_empty()), "{socket:?} is heard about {id}");
        self.carry(out);
        let said = self.relay.registry.owner_mut(socket.id).and_then(|(_, agent)| agent.link_mut(socket.id)?.hello.instance.clone());
        if said.is_some() && self.dice.one_in(4) {
            // It says that it is another now, which a connection cannot become.
            let features = Features { answer: true, cancelled: true, restarting: true };
            let hello = Hello { adapter: None, instance: Some(format!("another{}", self.draw()).into()), features };
            let ((), out) = self.input(|relay, now, out| relay.introduced(now, socket.id, Some(hello), out));
            self.carry(out);
        }
    }

    fn connect(&mut self) {
        let i = self.dice.roll(4);
        let (id, agent) = (ConnectionId(self.draw()), name(AGENTS[i]));
        let (taken, out) = self.input(|relay, now, out| relay.connected(now, &agent, id, out));
        assert_eq!(taken, self.relay.knows(&agent), "connection of {agent}");
        if !taken {
            return assert!(out.is_empty());
        }
        let process = (i < 3).then(|| self.processes[i].clone());
        self.sockets.push(Socket { id, agent, process: process.clone() });
        self.carry(out);
        // Now and then a connection goes before it has said anything.
        if !self.dice.one_in(6) && self.sockets.iter().any(|s| s.id == id) {
            let features = Features { answer: true, cancelled: true, restarting: true };
            let hello = process.map(|process| Hello { adapter: None, instance: Some(process), features });
            let ((), out) = self.input(|relay, now, out| relay.introduced(now, id, hello, out));
            self.carry(out);
        }
    }

    fn disconnect(&mut self) {
        let Some(socket) = self.dice.of(&self.sockets) else { return };
        self.sockets.retain(|s| s.id != socket.id);
        let elsewhere = |relay: &Relay| -> Vec<(RequestId, Phase)> {
            let all = relay.open.iter().filter(|(_, o)| matches!(&o.phase, Phase::Awake(a) if a.on.is_some_and(|on| on != socket.id)));
            all.map(|(id, o)| (*id, o.phase.clone())).collect()
        };
        let before = elsewhere(&self.relay);
        let clean = self.dice.one_in(2);
        let ((), out) = self.input(|relay, now, out| relay.disconnected(now, socket.id, clean, out));
        for (id, phase) in before {
            assert_eq!(self.relay.open[&id].phase, phase, "the end of {socket:?} touched {id}");
        }
        let off = out.iter().any(|e| matches!(e, Effect::Record(Fact::Presence { .. })));
        assert_eq!(off, !self.sockets.iter().any(|s| s.agent == socket.agent), "{socket:?}");
        self.carry(out);
        let ((), out) = self.input(|relay, now, out| relay.disconnected(now, socket.id, clean, out));
        assert!(out.is_empty(), "an end reported twice");
    }

    fn cancel(&mut self) {
        let id = self.any_request();
        let open = self.relay.open.contains_key(&id);
        let (done, out) = self.input(|relay, now, out| relay.cancel(now, id, "enough", out));
        assert_eq!(done, open);
        self.carry(out);
    }

    /// An asker's call returns without the end.
    fn excuse(&mut self) {
        let id = self.any_request();
        let open = self.ledger.lines.iter_mut().find(|line| line.asked.id == id && line.end.is_none());
        assert_eq!(self.relay.excuse(id), open.is_some());
        if let Some(line) = open {
            line.excused = true;
        }
    }

    /// A person answers in the bot's place or cancels, or the disk refused the question.
    fn intervene(&mut self) {
        let (id, who, way) = (self.any_request(), "owner".into(), self.dice.roll(3));
        let open = self.relay.open.contains_key(&id);
        let (done, out) = self.input(|relay, now, out| match way {
            0 => relay.answer_as(now, &who, id, "by hand".into(), out) == Replied::Taken,
            1 => relay.cancel_as(now, &who, id, out),
            _ => {
                relay.abandon(now, id, out);
                open
            }
        });
        assert!(done == open && (open || out.is_empty()), "{id} ({open}): {out:?}");
        self.carry(out);
    }

    /// A process dies with its sockets (their ends are reported later) and another takes its place.
    fn new_process(&mut self) {
        let i = self.dice.roll(3);
        self.processes[i] = format!("{}{}", AGENTS[i], self.draw()).into();
    }

    fn reload(&mut self) {
        let names: Vec<AgentName> = AGENTS.iter().filter(|_| !self.dice.one_in(8)).map(|a| name(a)).collect();
        self.relay.set_agents(&names, Permissions::default());
        self.ledger.check(&self.relay, &self.sockets);
    }

    fn tick(&mut self) {
        let ((), out) = self.input(|relay, now, out| relay.tick(now, out));
        assert!(self.relay.next_deadline().is_none_or(|at| at > self.now), "a deadline has passed and stays");
        self.carry(out);
    }

    /// Time goes on until nothing is open.
    fn wind_up(&mut self) {
        self.crash = 0;
        for _ in 0..500 {
            let Some(at) = self.relay.next_deadline() else { break };
            self.now = self.now.max(at);
            self.tick();
        }
        assert_eq!(self.relay.open_count(), 0, "questions without end");
        assert!(self.relay.twins.is_empty() && self.relay.deadlines.is_empty() && self.relay.registry.agents.values().all(|a| a.load() == 0));
        assert!(self.ledger.lines.iter().all(|line| line.end.is_some()), "an end that is not on record");
    }
}

/// Says which script failed, whatever failed.
struct Seed(u64);

impl Drop for Seed {
    #[allow(clippy::print_stderr)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the script with seed {} failed", self.0);
        }
    }
}

fn scripts(first: u64, count: u64, crash: usize) {
    for seed in first..first + count {
        let _named = Seed(seed);
        let mut world = World::new(seed, crash);
        (0..60).for_each(|_| world.step());
        world.wind_up();
    }
}

#[test]
fn every_random_script_keeps_the_promises() {
    scripts(1, 2000, 0);
}

#[test]
fn a_stop_between_any_two_effects_keeps_the_promises_too() {
    scripts(1_000_000, 2000, 12);
}
