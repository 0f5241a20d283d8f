//! What a person does at the page: the forms, and what is done with them. Works without scripts; decides nothing.

use maud::{Markup, html};
use warp::http::StatusCode;
use warp::reply::Response;

use super::Ask;
use super::address::{Address, escaped};
use super::form::{Form, OWNERS_ONLY, Refused, see_other};
use super::page::{Page, Part, form_token};
use super::view::View;
use super::words::fill;
use crate::core::exchange::{Record, WhenOffline};
use crate::core::ids::{AgentName, RequestId};
use crate::core::outcome::Outcome;
use crate::core::person::{OWNER, Pause};
use crate::core::presence::Present;
use crate::core::replies::Replied;
use crate::engine::{Actor, AskRequest, Paused, StoreError, Visitor};

/// Carries out one form; the last part of its address says which.
pub(super) async fn act(what: String, form: Result<Form, Refused>) -> Response {
    let form = match form.and_then(Form::owners) {
        Ok(form) => form,
        Err(refusal) => return *refusal,
    };
    let actor = Actor { visitor: Visitor::Owner, address: form.ask.peer.address };
    let done = match what.as_str() {
        "ask" => ask(&form, &actor).await,
        "answer" => answer(&form, &actor).await,
        "cancel" => cancel(&form, &actor).await,
        "clear" => clear(&form, &actor).await,
        "pause" => pause(&form, &actor, true).await,
        "resume" => pause(&form, &actor, false).await,
        _ => return form.ask.gone(),
    };
    done.unwrap_or_else(|e| form.ask.trouble(&e.into()))
}

async fn ask(form: &Form, actor: &Actor) -> Result<Response, StoreError> {
    let when_offline = if form.value("queue").is_empty() { WhenOffline::Fail } else { WhenOffline::Queue };
    let request = AskRequest {
        to: form.value("to").trim().to_owned(),
        message: form.value("message").replace("\r\n", "\n"),
        conversation: Some(form.value("conversation").to_owned()),
        when_offline,
        ..AskRequest::default()
    };
    if request.message.trim().is_empty() {
        return Ok(form.ask.not_done(form.ask.view.words().a_blank));
    }
    let id = form.ask.engine.ask_as_person(actor, request).await?;
    Ok(see_other(&format!("/ui/x/{id}")))
}

async fn answer(form: &Form, actor: &Actor) -> Result<Response, StoreError> {
    let words = form.ask.view.words();
    let Some(id) = RequestId::parse(form.value("id")) else { return Ok(form.ask.gone()) };
    Ok(match form.ask.engine.answer_as_person(actor, id, &form.value("answer").replace("\r\n", "\n")).await? {
        Replied::Taken | Replied::TakenLate => see_other(&format!("/ui/x/{id}")),
        Replied::Empty => form.ask.not_done(words.a_blank),
        Replied::TooLarge { bytes, max, limit } => {
            form.ask.not_done(&fill(words.a_too_large, &[("n", &bytes.to_string()), ("limit", limit), ("max", &max.to_string())]))
        }
        Replied::AlreadyAnswered | Replied::AskHistory | Replied::Unknown => form.ask.not_done(words.a_over),
    })
}

async fn cancel(form: &Form, actor: &Actor) -> Result<Response, StoreError> {
    let Some(id) = RequestId::parse(form.value("id")) else { return Ok(form.ask.gone()) };
    let cancelled = form.ask.engine.cancel_as_person(actor, id).await?;
    Ok(if cancelled { see_other(&format!("/ui/x/{id}")) } else { form.ask.not_done(form.ask.view.words().a_over) })
}

async fn clear(form: &Form, actor: &Actor) -> Result<Response, StoreError> {
    let Some(id) = RequestId::parse(form.value("id")) else { return Ok(form.ask.gone()) };
    let cleared = form.ask.engine.clear_loop_as_person(actor, id).await?;
    Ok(if cleared { see_other(&format!("/ui/x/{id}")) } else { form.ask.not_done(form.ask.view.words().a_over) })
}

async fn pause(form: &Form, actor: &Actor, begin: bool) -> Result<Response, StoreError> {
    let (engine, words) = (&form.ask.engine, form.ask.view.words());
    let other = Some(form.value("other")).filter(|o| !o.is_empty());
    let (Some(one), Some(other)) = (AgentName::parse(form.value("one")), other.map_or(Some(None), |o| AgentName::parse(o).map(Some))) else {
        return Ok(form.ask.not_done(words.a_no_agent));
    };
    let outcome = if begin { engine.pause(actor, one, other).await? } else { engine.resume_paused(actor, &one, other.as_ref()).await? };
    Ok(match outcome {
        Paused::Done | Paused::Already => form.back(),
        Paused::Unknown => form.ask.not_done(words.a_no_agent),
        Paused::Full => form.ask.not_done(words.a_full),
    })
}

impl Ask {
    fn not_done(&self, why: &str) -> Response {
        let words = self.view.words();
        let body = html! { p { (why) } p { a href="/ui" { "← " (words.all_conversations) } } };
        self.say(StatusCode::CONFLICT, words.not_done, &body)
    }

    /// The form for a question of one's own.
    pub(super) async fn asking(self) -> Response {
        if !may_act(&self.view) {
            return self.refused(OWNERS_ONLY, self.view.words().viewer_only);
        }
        let words = self.view.words();
        let present = super::rail::sorted(self.engine.present(None));
        let main = html! {
            div id="found" class="asking" { h1 { (words.a_ask) } (ask_form(&self.view, &present, self.value("to"))) }
        };
        let address = Address::default();
        let page = Page { title: words.a_ask, part: Part::Other, address: &address, events: None, kind: "asking" };
        self.show(StatusCode::OK, &page, &main)
    }
}

/// Only the owner is shown what only the owner may do.
pub(super) fn may_act(view: &View) -> bool {
    view.guest.as_ref().is_some_and(|g| g.visitor == Visitor::Owner)
}

fn ask_form(view: &View, present: &[Present], to: &str) -> Markup {
    let words = view.words();
    html! {
        form class="act" action="/ui/act/ask" method="post" {
            (form_token(view))
            label for="to" { (words.agent) }
            select id="to" name="to" {
                @for one in present {
                    option value=(one.name) selected[one.name.as_str() == to] { (one.name) " · " (if one.online { words.online } else { words.offline }) }
                }
            }
            (message(words.a_question, "message"))
            label class="check" { input type="checkbox" name="queue" value="1"; (words.a_queue) }
            button type="submit" class="main" { (words.a_send) }
        }
    }
}

fn message(label: &str, name: &str) -> Markup {
    html! { label { (label) textarea name=(name) rows="4" required dir="auto" maxlength="200000" {} } }
}

/// Under a thread: what can be done about its open exchanges, and the next question where it is one's own.
pub(super) fn step_in(view: &View, records: &[Record]) -> Markup {
    let words = view.words();
    let open: Vec<&Record> = records.iter().filter(|r| r.end.is_none()).collect();
    let stopped = records.last().filter(|r| r.end.as_ref().is_some_and(|e| e.outcome == Outcome::LoopLimit));
    let own = records.last().filter(|last| last.asked.from.as_str() == OWNER && !last.refused);
    html! {
        @if may_act(view) {
            @for record in open { (open_exchange(view, record)) }
            @if let Some(last) = stopped {
                section class="step-in" {
                    h2 { (words.k_loop) }
                    (form_about(view, "clear", last.asked.id, &html! { p { (words.a_clear_why) } }, ("main", words.a_clear)))
                }
            }
            @if let Some(last) = own {
                section class="step-in" {
                    h2 { (words.a_go_on) }
                    form class="act" action="/ui/act/ask" method="post" {
                        (form_token(view))
                        input type="hidden" name="to" value=(last.asked.to);
                        input type="hidden" name="conversation" value=(last.asked.conversation);
                        (message(words.a_question, "message"))
                        button type="submit" class="main" { (words.a_send) }
                    }
                }
            }
        }
    }
}

fn open_exchange(view: &View, record: &Record) -> Markup {
    let words = view.words();
    let (from, to) = (record.asked.from.as_str(), &*record.asked.to);
    let begun: String = record.asked.message.chars().take(80).collect();
    html! {
        details class="step-in" {
            summary { (fill(words.a_step_in, &[("from", from), ("to", to)])) }
            p dir="auto" class="begun" { "“" (begun) "”" }
            (form_about(view, "answer", record.asked.id, &message(&fill(words.a_answer_as, &[("to", to)]), "answer"), ("main", words.a_answer)))
            (form_about(view, "cancel", record.asked.id, &html! {}, ("plain danger", words.a_cancel)))
        }
    }
}

/// What can be done about one exchange: the last part of the form's address, what it asks for, the button's looks and word.
fn form_about(view: &View, what: &str, id: RequestId, inside: &Markup, (class, word): (&str, &str)) -> Markup {
    html! {
        form class="act" action={ "/ui/act/" (what) } method="post" {
            (form_token(view))
            input type="hidden" name="id" value=(id);
            (inside)
            button type="submit" class=(class) { (word) }
        }
    }
}

/// On an agent's card.
pub(super) fn agent(view: &View, name: &AgentName, pauses: &[Pause]) -> Markup {
    let words = view.words();
    let paused = pauses.iter().find(|p| p.is_of(name, None));
    html! {
        @if paused.is_some() { p class="paused" { (words.a_paused) } }
        @if may_act(view) {
            div class="acts" {
                a href={ "/ui/ask?to=" (escaped(name.as_str())) } { (words.a_ask) }
                (switch(view, name.as_str(), "", paused.is_some()))
            }
        }
    }
}

fn switch(view: &View, one: &str, other: &str, paused: bool) -> Markup {
    let words = view.words();
    let name = if other.is_empty() { one.to_owned() } else { format!("{one}, {other}") };
    html! {
        form action=(if paused { "/ui/act/resume" } else { "/ui/act/pause" }) method="post" {
            (form_token(view))
            input type="hidden" name="back" value="/ui/agents";
            input type="hidden" name="one" value=(one);
            input type="hidden" name="other" value=(other);
            button type="submit" class="plain" { (if paused { words.a_resume } else { words.a_pause }) span class="sr" { " " (name) } }
        }
    }
}

/// Under the cards: pairs that may not talk, and the form that adds one.
pub(super) fn pairs(view: &View, present: &[Present], pauses: &[Pause]) -> Markup {
    let words = view.words();
    // Two different ones to begin with.
    let choice = |name: &str, label: &str, first: usize| {
        html! { label { (label) select name=(name) { @for (n, one) in present.iter().enumerate() { option value=(one.name) selected[n == first] { (one.name) } } } } }
    };
    html! {
        @if may_act(view) || pauses.iter().any(|p| p.other.is_some()) {
            section class="pairs" {
                h2 { (words.a_pairs) }
                @for pause in pauses { @if let Some(other) = &pause.other {
                    p { (pause.one) " ⇄ " (other) " · " (words.a_paused) " " @if may_act(view) { (switch(view, pause.one.as_str(), other.as_str(), true)) } }
                } }
                @if may_act(view) && present.len() > 1 {
                    form class="pair" action="/ui/act/pause" method="post" {
                        (form_token(view))
                        input type="hidden" name="back" value="/ui/agents";
                        (choice("one", words.agent, 0))
                        (choice("other", words.a_other, 1))
                        button type="submit" class="plain" { (words.a_pause_pair) }
                    }
                }
            }
        }
    }
}
