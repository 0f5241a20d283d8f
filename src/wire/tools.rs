//! The tools that bots see: names, descriptions, schemas, and their arguments read strictly. The whole list stays under
//! 1,500 tokens, and its words are plain: Hermes scans descriptions for what looks like an injection.

use serde_json::{Map, Value, json};

/// The tool that answers. No limit of the doors holds it up: what was computed must not be lost.
pub const REPLY: &str = "reply";

/// Arguments of a call, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    AskAgent {
        to: String,
        message: String,
        conversation_id: Option<String>,
        queue: bool,
        request_key: Option<String>,
    },
    Reply {
        request_id: String,
        answer: String,
    },
    /// A turn that ended without an answer; what adapters send in place of one.
    Fail {
        request_id: String,
        error: String,
        detail: Option<String>,
    },
    ListAgents,
    GetAnswer {
        request_id: String,
        wait_seconds: u64,
    },
}

/// A call that is no use of the tools: the caller's fault, said in a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Misuse {
    UnknownTool(String),
    Arguments(String),
}

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownTool(name) => write!(f, "there is no tool {name:?}; there are ask_agent, reply, list_agents and get_answer"),
            Self::Arguments(why) => f.write_str(why),
        }
    }
}

/// Name, title, description, read-only, input schema.
pub struct Tool {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub read_only: bool,
    pub schema: Value,
}

#[must_use]
pub fn all() -> Vec<Tool> {
    vec![
        Tool {
            name: "ask_agent",
            title: "Ask another agent",
            description: "Ask another agent a question and wait for its answer. Returns {ok:true, answer, conversation_id, request_id}, or {ok:false, error, message}: follow the message. still_working means the answer comes later: fetch it with get_answer, and never ask the same again.",
            read_only: false,
            schema: object(
                &["to", "message"],
                json!({
                    "to": text("Name of the agent, from list_agents."),
                    "message": text("The question, with all that the other agent needs: it sees only this and the earlier turns of the conversation."),
                    "conversation_id": text("Continues that conversation; leave out to begin a new one."),
                    "when_offline": {"type": "string", "enum": ["fail", "queue"], "description": "queue leaves the question for an agent that is away; default fail."},
                    "request_key": text("Your own key for this question: asked again with the same key it is the same question, not a second one."),
                }),
            ),
        },
        Tool {
            name: "get_answer",
            title: "Fetch an answer",
            description: "Fetch the outcome of an earlier ask_agent by its request_id, waiting up to wait_seconds for it. Same result as ask_agent.",
            read_only: true,
            schema: object(
                &["request_id"],
                json!({
                    "request_id": text("As ask_agent returned it."),
                    "wait_seconds": {"type": "integer", "minimum": 0, "description": "How long to wait for the answer; default 0."},
                }),
            ),
        },
        Tool {
            name: "list_agents",
            title: "List agents",
            description: "The agents you can ask: name, online, last_seen, and waiting, the number of questions each has before it.",
            read_only: true,
            schema: object(&[], json!({})),
        },
        Tool {
            name: REPLY,
            title: "Answer a question",
            description: "Answer a question that another agent asked you, by the request_id you were given with it. One answer a question.",
            read_only: false,
            schema: object(
                &["request_id", "answer"],
                json!({
                    "request_id": text("As given with the question."),
                    "answer": text("The complete answer."),
                }),
            ),
        },
    ]
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// The tool's name, for figures: one of those there are, or `unknown`.
#[must_use]
pub fn label(tool: &str) -> &'static str {
    ["ask_agent", REPLY, "list_agents", "get_answer"].into_iter().find(|name| *name == tool).unwrap_or("unknown")
}

/// Reads the arguments of a call; unknown ones are refused by name, so that a misspelt option is not silently ignored.
pub fn parse(tool: &str, arguments: Map<String, Value>) -> Result<Call, Misuse> {
    let mut given = Arguments(arguments);
    let call = match tool {
        "ask_agent" => Call::AskAgent {
            to: given.required("to")?,
            message: given.required("message")?,
            conversation_id: given.optional("conversation_id")?,
            queue: match given.optional("when_offline")?.as_deref() {
                None | Some("fail") => false,
                Some("queue") => true,
                Some(other) => return Err(Misuse::Arguments(format!("when_offline: {other:?} is neither \"fail\" nor \"queue\""))),
            },
            request_key: given.optional("request_key")?.map(short_key).transpose()?,
        },
        REPLY => match given.optional("error")? {
            Some(error) => Call::Fail { request_id: given.required("request_id")?, error, detail: given.optional("detail")? },
            None => Call::Reply { request_id: given.required("request_id")?, answer: given.required("answer")? },
        },
        "list_agents" => Call::ListAgents,
        "get_answer" => Call::GetAnswer { request_id: given.required("request_id")?, wait_seconds: given.number("wait_seconds")?.unwrap_or(0) },
        other => return Err(Misuse::UnknownTool(other.chars().take(80).collect())),
    };
    given.finish(tool)?;
    Ok(call)
}

const MAX_KEY: usize = 200;

fn short_key(key: String) -> Result<String, Misuse> {
    if key.len() > MAX_KEY {
        return Err(Misuse::Arguments(format!("request_key: {} bytes, at most {MAX_KEY} are allowed", key.len())));
    }
    Ok(key)
}

struct Arguments(Map<String, Value>);

impl Arguments {
    /// `null` counts as left out: many clients send it for what the model did not give.
    fn optional(&mut self, key: &str) -> Result<Option<String>, Misuse> {
        match self.0.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(Misuse::Arguments(format!("{key}: a text is expected, not {}", kind(&other)))),
        }
    }

    fn required(&mut self, key: &str) -> Result<String, Misuse> {
        self.optional(key)?.ok_or_else(|| Misuse::Arguments(format!("{key}: is missing")))
    }

    fn number(&mut self, key: &str) -> Result<Option<u64>, Misuse> {
        match self.0.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(n)) if n.as_f64().is_some_and(|f| f >= 0.0) => {
                Ok(Some(n.as_u64().unwrap_or_else(|| n.as_f64().map_or(0, |f| f as u64))))
            }
            Some(other) => Err(Misuse::Arguments(format!("{key}: a number of at least 0 is expected, not {}", kind(&other)))),
        }
    }

    fn finish(self, tool: &str) -> Result<(), Misuse> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(key) => Err(Misuse::Arguments(format!("{}: {tool} has no such argument", key.chars().take(80).collect::<String>()))),
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "this number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn the_schemas_of_all_tools_stay_small() {
        let bytes: usize = all().iter().map(|t| t.name.len() + t.description.len() + t.schema.to_string().len()).sum();
        // Four bytes a token is a low estimate for JSON in English.
        assert!(bytes < 1_500 * 3, "{bytes} bytes");
    }

    #[test]
    fn wrong_missing_and_unknown_arguments_are_named() {
        let misuse = |tool, value| parse(tool, arguments(value)).unwrap_err().to_string();
        assert_eq!(misuse("ask_agent", json!({"to": "bob"})), "message: is missing");
        assert_eq!(misuse("ask_agent", json!({"to": 5, "message": "m"})), "to: a text is expected, not this number");
        assert_eq!(misuse("ask_agent", json!({"to": "b", "message": "m", "conversation": "c"})), "conversation: ask_agent has no such argument");
        assert_eq!(
            misuse("get_answer", json!({"request_id": "r", "wait_seconds": -1})),
            "wait_seconds: a number of at least 0 is expected, not this number"
        );
        assert!(misuse("dance", json!({})).contains("\"dance\""));
    }

    #[test]
    fn every_tool_has_its_label() {
        all().iter().for_each(|t| assert_eq!(label(t.name), t.name));
        assert_eq!(label("dance"), "unknown");
    }

    #[test]
    fn null_is_the_same_as_left_out() {
        let call = parse("ask_agent", arguments(json!({"to": "b", "message": "m", "conversation_id": null, "request_key": null}))).unwrap();
        assert!(matches!(call, Call::AskAgent { conversation_id: None, request_key: None, queue: false, .. }));
    }
}
