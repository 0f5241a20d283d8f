//! THE dispatcher: every tool call of both doors goes through `call`, so that MCP and WebSocket have the very same tools,
//! results and rules.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::gate::TooMuch;
use super::refused;
use super::untaken::Untaken;
use crate::config::TokenHash;
use crate::core::exchange::{Record, WhenOffline};
use crate::core::ids::{AgentName, RequestId};
use crate::core::replies::Reply;
use crate::engine::{AnswerReport, AskReport, AskRequest, Engine, StoreError};
use crate::wire;
use crate::wire::results::{self, Report};
use crate::wire::tools::{Call, Misuse, parse};

/// The rule that is broken by who names another's request, or none.
pub(super) const NO_REQUEST: &str = "no such request";

/// What `reply` says to a bot whose answer it does not take.
const REFUSED_REPLIES: [&str; 3] = ["already_answered", "empty_answer", "too_large"];

/// Who calls, from where, and what comes with a call beside its arguments.
#[derive(Clone)]
pub(super) struct Context {
    pub caller: AgentName,
    pub address: IpAddr,
    /// The bot's id for the call: sent again after a lost connection it is the same call.
    pub call_id: Option<Arc<str>>,
    pub traceparent: Option<String>,
    /// Kept by the door until the result is on its way.
    pub room: Arc<Untaken>,
}

impl Context {
    fn note(&self, engine: &Engine, over: &TooMuch) {
        over.note(engine, self.caller.as_str(), self.address);
    }
}

/// Runs one call. The result is JSON; misuse is the caller's fault and no result.
pub(super) async fn call(engine: &Arc<Engine>, tool: &str, arguments: Map<String, Value>, context: &Context) -> Result<String, Misuse> {
    let name = wire::tools::label(tool);
    let call = parse(tool, arguments).inspect_err(|_| engine.metrics().called(name, "misuse"))?;
    let told = Telling { engine, tool: name, context };
    if matches!(call, Call::ListAgents) {
        return Ok(told.list(&results::agents(&engine.present(Some(&context.caller)))));
    }
    let report = run(engine, call, context).await.unwrap_or_else(|e| {
        tracing::error!(agent = %context.caller, tool, error = %e, "a tool call met the store's trouble");
        results::unavailable()
    });
    Ok(told.report(report))
}

/// A result as text: counted, as much of it as there is room for, and on record if it tells of nothing of the caller's.
pub(super) struct Telling<'a> {
    pub engine: &'a Engine,
    pub tool: &'static str,
    pub context: &'a Context,
}

impl Telling<'_> {
    pub(super) fn report(&self, report: Report) -> String {
        let report = match self.context.room.hold(report.weight()) {
            Ok(()) => report,
            Err(over) => {
                self.context.note(self.engine, &over);
                report.fetched_later(over.limit, over.max)
            }
        };
        if let Some((rule, what)) = self.refusal(report.error) {
            refused(self.engine, rule, self.context.caller.as_str(), self.context.address, &format!("{}: {what}", self.tool));
        }
        self.engine.metrics().called(self.tool, report.error.unwrap_or("ok"));
        json(&report)
    }

    /// What of a result is a refusal that stands on record nowhere else; refused asks do, as exchanges.
    fn refusal(&self, error: Option<&'static str>) -> Option<(&'static str, String)> {
        let error = error?;
        if error == results::UNKNOWN_REQUEST {
            return Some((NO_REQUEST, format!("{NO_REQUEST} of its own")));
        }
        (self.tool == wire::tools::REPLY && REFUSED_REPLIES.contains(&error)).then(|| (error, error.to_owned()))
    }

    fn list(&self, agents: &[impl serde::Serialize]) -> String {
        let list = json(&agents);
        match self.context.room.hold(list.len()) {
            Ok(()) => {
                self.engine.metrics().called(self.tool, "ok");
                list
            }
            Err(over) => {
                self.context.note(self.engine, &over);
                self.report(results::too_fast(over.limit, over.max as u64, over.retry_in_ms))
            }
        }
    }
}

/// What `ask_agent` asks for, as the engine takes it.
pub(super) fn ask_request(call: Call, context: &Context) -> Option<AskRequest> {
    let Call::AskAgent { to, message, conversation_id, queue, request_key } = call else { return None };
    let when_offline = if queue { WhenOffline::Queue } else { WhenOffline::Fail };
    // A call that the bot numbered is the same call when it is sent again; its number with another question is another call.
    let key = request_key.or_else(|| {
        let id = context.call_id.as_ref()?;
        let question = TokenHash::of(&format!("{to}\n{}\n{message}", conversation_id.as_deref().unwrap_or_default()));
        Some(format!("call:{id}:{}", question.to_hex()))
    });
    Some(AskRequest { to, message, conversation: conversation_id, when_offline, key, traceparent: context.traceparent.clone() })
}

async fn run(engine: &Arc<Engine>, call: Call, context: &Context) -> Result<Report, StoreError> {
    let caller = &context.caller;
    match call {
        Call::Reply { request_id, answer } => replied(engine, &request_id, Reply::Answer(answer.into()), context).await,
        Call::Fail { request_id, error, detail } => {
            let why = detail.filter(|d| !d.trim().is_empty()).unwrap_or(error);
            replied(engine, &request_id, Reply::Failure(why.into()), context).await
        }
        Call::GetAnswer { request_id, wait_seconds } => {
            let Some(id) = RequestId::parse(&request_id) else { return Ok(results::unknown_request()) };
            Ok(fetched(engine.get_answer(caller, id, Duration::from_secs(wait_seconds)).await?))
        }
        other => match ask_request(other, context) {
            Some(request) => Ok(asked(engine, &engine.ask(caller, request).await?).await),
            None => Ok(Report::default()),
        },
    }
}

async fn replied(engine: &Arc<Engine>, request_id: &str, reply: Reply, context: &Context) -> Result<Report, StoreError> {
    let Some(id) = RequestId::parse(request_id) else { return Ok(results::unknown_request()) };
    let kept = engine.reply(&context.caller, id, reply, context.call_id.clone()).await?;
    Ok(results::replied(&kept.replied, kept.recorded))
}

/// The result of an ask, with the late answers that come with it.
pub(super) async fn asked(engine: &Arc<Engine>, report: &AskReport) -> Report {
    let late = engine.late_beside(report).await;
    let late = late.iter().filter_map(|record| Some((record.asked.id, record.late.as_deref()?)));
    asked_alone(report).with_late(late)
}

fn asked_alone(report: &AskReport) -> Report {
    match report {
        AskReport::Ended(ended) => results::ended(&ended.asked, &ended.end, None, ended.recorded),
        AskReport::Recorded(record) => recorded(record),
        AskReport::StillWorking { id, conversation, to, .. } => results::still_working(*id, *conversation, to),
        AskReport::Queued { id, conversation, to, position, expires } => results::queued(*id, *conversation, to, *position, *expires),
        AskReport::Refused { id, refusal, recorded } => results::refused(*id, refusal, *recorded),
    }
}

fn recorded(Record { asked, end, late, .. }: &Record) -> Report {
    match end {
        Some(end) => results::ended(asked, end, late.as_deref(), true),
        None => results::still_working(asked.id, asked.conversation, &asked.to),
    }
}

fn fetched(report: AnswerReport) -> Report {
    match report {
        AnswerReport::Unknown => results::unknown_request(),
        AnswerReport::Ended(ended) => results::ended(&ended.asked, &ended.end, None, ended.recorded),
        AnswerReport::Recorded(record) => recorded(&record),
        AnswerReport::StillWorking(asked) => results::still_working(asked.id, asked.conversation, &asked.to),
        AnswerReport::Queued { asked, expires } => results::queued(asked.id, asked.conversation, &asked.to, None, expires),
    }
}

pub(super) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
