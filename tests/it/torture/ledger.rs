//! Everything that anybody was told, and the law: whatever contradicts it is a fault, noted with what was seen.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use serde_json::Value;

/// One question that was asked, however often and however it travelled.
#[derive(Clone)]
pub struct Question {
    pub from: String,
    pub to: String,
    pub message: String,
    pub conversation: Option<String>,
    /// The request as which it came to the one who was asked.
    woken_as: Option<String>,
}

/// What somebody was told of a request: its outcome word, and the answer's if there was one.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Answered,
    /// After the end, which was this.
    Late(String),
    Ended(String),
}

#[derive(Default)]
struct Request {
    question: u64,
    told: Vec<Told>,
    /// When a bot was told that its answer is taken, and whether that was after the end.
    taken: Option<(u64, bool)>,
    /// The request with whose result its late answer was told.
    noted_with: Option<String>,
    /// Its asker was told to go on with something else.
    left: bool,
    /// Its answer came to the asker by itself.
    handed: bool,
    /// All that was seen of it, for whoever has to find out.
    story: Vec<String>,
}

impl Request {
    fn of(question: u64) -> Self {
        Self { question, ..Self::default() }
    }
}

impl Request {
    /// Its asker has the answer, however it came.
    fn is_known(&self) -> bool {
        self.handed || self.noted_with.is_some() || self.told.iter().any(|told| !matches!(told, Told::Ended(_)))
    }
}

#[derive(Default)]
struct Seen {
    questions: Vec<Question>,
    /// Calls about each question of which it is not known whether their result came: with it the relay has handed it over.
    under_way: HashMap<u64, i64>,
    requests: HashMap<String, Request>,
    faults: Vec<String>,
    outcomes: BTreeMap<String, u64>,
    counts: BTreeMap<&'static str, u64>,
}

impl Seen {
    /// A late answer that the result of another request told of.
    fn noted(&mut self, with: &str, note: &Value) {
        let request = note["request_id"].as_str().unwrap_or_default();
        let (asker, about) = (self.requests.get(with).map(|r| r.question), self.requests.get_mut(request));
        let right = about.is_some_and(|about| {
            let (by, of) = (&self.questions[asker.unwrap_or(0) as usize], &self.questions[about.question as usize]);
            let whole = note["answer"].is_null() || note["answer"] == answer_of(&of.to, &of.message).as_str();
            about.noted_with.get_or_insert_with(|| with.to_owned()) == with && of.from == by.from && whole
        });
        if !right {
            self.faults.push(format!("the result of {with} tells what it should not: {note}"));
        }
        *self.counts.entry("late answers as notes").or_default() += 1;
    }
}

pub struct Ledger {
    pub names: Vec<String>,
    began: Instant,
    clock: AtomicU64,
    winding_down: AtomicBool,
    asking: AtomicU64,
    seen: Mutex<Seen>,
}

const GOES_ON: [&str; 2] = ["still_working", "queued"];
const ENDS: [&str; 7] = ["timeout", "agent_offline", "agent_disconnected", "failed", "expired", "loop_limit", "rate_limited"];

/// The one right answer of this bot to this question.
pub fn answer_of(to: &str, message: &str) -> String {
    let hash = format!("{to}<{message}").bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let long = if hash.is_multiple_of(64) { 3000 } else { hash % 16 };
    format!("{to} says {}", format!("{hash:016x} \"é\n").repeat(1 + long as usize))
}

impl Ledger {
    pub fn new(names: &[String]) -> Self {
        let (clock, winding_down, asking, seen) = Default::default();
        Self { names: names.to_vec(), began: Instant::now(), clock, winding_down, asking, seen }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// A moment: later ones are larger.
    pub fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    pub fn wind_down(&self) {
        self.winding_down.store(true, Ordering::SeqCst);
    }

    pub fn winds_down(&self) -> bool {
        self.winding_down.load(Ordering::SeqCst)
    }

    pub fn nobody_asks(&self) -> bool {
        self.asking.load(Ordering::SeqCst) == 0
    }

    /// Counts an asker at work until it is dropped.
    pub fn asking(self: &Arc<Self>) -> Asking {
        self.asking.fetch_add(1, Ordering::SeqCst);
        Asking(self.clone())
    }

    pub fn fault(&self, what: String) {
        self.seen().faults.push(what);
    }

    pub fn faults(&self) -> Vec<String> {
        self.seen().faults.clone()
    }

    pub fn count(&self, what: &'static str) {
        *self.seen().counts.entry(what).or_default() += 1;
    }

    /// What a run is to have seen and has not.
    pub fn never(&self, long: bool) -> Vec<&'static str> {
        let seen = self.seen();
        let often = ["askers that left", "streams taken up", "processes that died", "never answered", "wakes", "answers first heard by a frame"];
        let rare = ["late answers as notes"].into_iter().filter(|_| long);
        let mut never: Vec<_> = often.into_iter().chain(rare).filter(|what| !seen.counts.contains_key(what)).collect();
        for (what, late) in [("answers acknowledged in time", false), ("answers acknowledged late", true)] {
            never.extend((!seen.requests.values().any(|r| r.taken.is_some_and(|(_, l)| l == late))).then_some(what));
        }
        never
    }

    pub fn figures(&self) -> String {
        let seen = self.seen();
        let all = seen.requests.values();
        let (taken, late) = (all.clone().filter(|r| r.taken.is_some()).count(), all.filter(|r| matches!(r.taken, Some((_, true)))).count());
        format!(
            "{} questions, {} taken as asks, {taken} answers acknowledged ({late} late); results: {:?}; {:?}",
            seen.questions.len(),
            seen.requests.len(),
            seen.outcomes,
            seen.counts
        )
    }

    /// A new question; its number is in its message.
    pub fn ask(&self, from: &str, to: &str, conversation: Option<String>, padding: usize) -> (u64, Question) {
        let mut seen = self.seen();
        let number = seen.questions.len() as u64;
        let message = format!("{number}|{from}|{to}|{}", "ü?\"".repeat(padding));
        let question = Question { from: from.to_owned(), to: to.to_owned(), message, conversation, woken_as: None };
        seen.questions.push(question.clone());
        (number, question)
    }

    /// A process was sent a question over a socket that was opened then.
    pub fn woken(&self, name: &str, instance: &str, opened: u64, wake: &Value) {
        let mut seen = self.seen();
        let field = |key| wake[key].as_str().unwrap_or_default();
        let (request, number) = (field("request_id").to_owned(), number_of(field("message")));
        let Some(question) = number.and_then(|n| seen.questions.get_mut(n as usize)) else {
            return seen.faults.push(format!("{name} was woken with what nobody asked: {wake}"));
        };
        let whole = question.from == field("from") && question.to == name && question.message == field("message");
        let placed = question.conversation.as_ref().is_none_or(|c| c == field("conversation_id"));
        let once = *question.woken_as.get_or_insert_with(|| request.clone()) == request;
        let entry = seen.requests.entry(request).or_insert_with(|| Request::of(number.unwrap_or(0)));
        entry.story.push(format!(
            "{} ms: {instance} woken, attempt {}, by a socket opened at moment {opened}",
            self.began.elapsed().as_millis(),
            wake["attempt"]
        ));
        let needless = entry.taken.is_some_and(|(at, _)| at < opened);
        if !whole || !placed || !once || needless {
            let story = entry.story.join("\n  ");
            seen.faults
                .push(format!("{name}: whole {whole}, in its conversation {placed}, one request {once}, needless {needless}: {wake}\n  {story}"));
        }
        *seen.counts.entry("wakes").or_default() += 1;
    }

    /// A call about this question begins. One that is cut is not ended by `told`.
    pub fn calls(&self, number: u64) {
        *self.seen().under_way.entry(number).or_default() += 1;
    }

    /// Answers that bots were told are taken and whose askers, told to go on or of another end, never heard of.
    pub fn owed(&self) -> Vec<String> {
        let seen = self.seen();
        let owed = |r: &Request| r.taken.is_some() && (r.left || !r.told.is_empty()) && !r.is_known();
        let sure = |r: &Request| seen.under_way.get(&r.question).is_none_or(|n| *n == 0);
        let found = seen.requests.iter().filter(|(_, r)| owed(r) && sure(r));
        found.map(|(id, r)| format!("{id} is owed to {}\n  {}", seen.questions[r.question as usize].from, r.story.join("\n  "))).collect()
    }

    /// The asker was told this of its question.
    pub fn told(&self, number: u64, result: &Value) {
        let mut seen = self.seen();
        *seen.under_way.entry(number).or_default() -= 1;
        let word = result["error"].as_str().unwrap_or(if result["late"] == true { "late" } else { "ok" }).to_owned();
        *seen.outcomes.entry(word).or_default() += 1;
        let Some(request) = result["request_id"].as_str().map(str::to_owned) else {
            return seen.faults.push(format!("question {number} got a result without a request: {result}"));
        };
        let entry = seen.requests.entry(request.clone()).or_insert_with(|| Request::of(number));
        entry.story.push(format!("{} ms: the asker is told {}", self.began.elapsed().as_millis(), brief(result)));
        let known = entry.question;
        if known != number {
            return seen.faults.push(format!("{request} is question {known} and question {number}: {result}"));
        }
        for note in result["late_answers"].as_array().into_iter().flatten() {
            seen.noted(&request, note);
        }
        match seen.questions[number as usize].read(result) {
            Err(why) => seen.faults.push(format!("question {number}: {why}: {result}")),
            Ok(None) => seen.requests.get_mut(&request).expect("entered above").left = true,
            Ok(Some(told)) => {
                let entry = seen.requests.get_mut(&request).expect("entered above");
                if !entry.told.contains(&told) {
                    entry.told.push(told);
                }
            }
        }
    }

    /// A second result of a call that has one.
    pub fn told_again(&self, result: &Value) {
        let mut seen = self.seen();
        if let Some(request) = seen.requests.get_mut(result["request_id"].as_str().unwrap_or_default()) {
            request.handed |= result["ok"] == true;
        }
    }

    /// An answer that came to the asker by itself.
    pub fn handed(&self, name: &str, frame: &Value) {
        let seen = &mut *self.seen();
        let question = seen.requests.get(frame["request_id"].as_str().unwrap_or_default()).map(|r| seen.questions[r.question as usize].clone());
        let right =
            question.is_none_or(|q| q.from == name && frame["to"] == q.to.as_str() && frame["answer"] == answer_of(&q.to, &q.message).as_str());
        if !right {
            seen.faults.push(format!("{name} was handed what it did not ask: {frame}"));
        }
        if let Some(request) = seen.requests.get_mut(frame["request_id"].as_str().unwrap_or_default()) {
            if !request.is_known() {
                request.story.push("the asker is handed the answer".to_owned());
                *seen.counts.entry("answers first heard by a frame").or_default() += 1;
            }
            request.handed = true;
        }
        *seen.counts.entry("answer frames").or_default() += 1;
    }

    /// A bot was told what became of its right answer.
    pub fn replied(&self, instance: &str, request: &str, result: &Value) {
        let now = self.now();
        let mut seen = self.seen();
        if let Some(entry) = seen.requests.get_mut(request) {
            entry.story.push(format!("{} ms: {instance} has answered and is told at moment {now} {result}", self.began.elapsed().as_millis()));
        }
        if result["error"] == "already_answered" {
            return;
        }
        let late = result["late"] == true;
        match seen.requests.get_mut(request).filter(|_| result["ok"] == true) {
            Some(entry) => {
                let before = entry.taken.get_or_insert((now, late)).1;
                if before != late {
                    seen.faults.push(format!("{request}: taken in time and late: {result}"));
                }
            }
            None => seen.faults.push(format!("{request}: an answer to a wake was not taken: {result}")),
        }
    }

    /// Each asker with the requests that are known of it.
    pub fn requests_by_asker(&self) -> HashMap<String, HashSet<String>> {
        let seen = self.seen();
        let mut all: HashMap<String, HashSet<String>> = HashMap::new();
        for (request, Request { question, .. }) in &seen.requests {
            all.entry(seen.questions[*question as usize].from.clone()).or_default().insert(request.clone());
        }
        all
    }

    /// What is kept in the end of a request.
    pub fn kept(&self, request: &str, result: &Value) {
        let mut seen = self.seen();
        let entry = &seen.requests[request];
        let told = match seen.questions[entry.question as usize].read(result) {
            Ok(Some(told)) => told,
            other => return seen.faults.push(format!("{request}: in the end {other:?}: {result}")),
        };
        let agrees = |before: &Told| match (before, &told) {
            (Told::Ended(a), Told::Late(b)) => a == b,
            (before, told) => before == told,
        };
        let fetched = entry.taken.is_none_or(|(_, late)| if late { matches!(told, Told::Late(_)) } else { told == Told::Answered });
        if !entry.told.iter().all(agrees) || !fetched {
            let story = entry.story.join("\n  ");
            seen.faults.push(format!("{request}: kept {}, but\n  {story}", brief(result)));
        }
    }

    /// One line of the owner's export.
    pub fn exported(&self, exchange: &Value) {
        let mut seen = self.seen();
        let question = exchange["message"].as_str().and_then(number_of).and_then(|n| seen.questions.get(n as usize));
        let right = question.is_some_and(|q| {
            let answered = exchange["answer"].is_null() || exchange["answer"] == answer_of(&q.to, &q.message).as_str();
            // Of what a rule refuses the beginning is kept.
            let begun = exchange["status"] == "loop_limit" && q.message.starts_with(exchange["message"].as_str().unwrap_or("?"));
            let whole = begun || exchange["message"] == q.message.as_str();
            exchange["from"] == q.from.as_str() && exchange["to"] == q.to.as_str() && whole && answered
        });
        if !right || exchange["status"] == "pending" {
            seen.faults.push(format!("the owner sees {exchange}"));
        }
    }
}

impl Question {
    /// What a result says of it; `None` while it goes on.
    fn read(&self, result: &Value) -> Result<Option<Told>, String> {
        if result["ok"] == true {
            if result["answer"] != answer_of(&self.to, &self.message).as_str() {
                return Err(format!("not the answer of {} to {:?}", self.to, self.message));
            }
            let late = || Told::Late(result["outcome"].as_str().unwrap_or_default().to_owned());
            return Ok(Some(if result["late"] == true { late() } else { Told::Answered }));
        }
        let word = result["error"].as_str().unwrap_or_default();
        match word {
            _ if GOES_ON.contains(&word) => Ok(None),
            _ if ENDS.contains(&word) => Ok(Some(Told::Ended(word.to_owned()))),
            _ => Err("an outcome that cannot be".to_owned()),
        }
    }
}

pub struct Asking(Arc<Ledger>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::SeqCst);
    }
}

fn brief(result: &Value) -> String {
    result.to_string().chars().take(200).collect()
}

fn number_of(message: &str) -> Option<u64> {
    message.split('|').next()?.parse().ok()
}
