//! An agent that calls tools over MCP, one POST a call, as any client does.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::relay::Address;
use super::soon;

/// The id that a stream began with; the stream was cut without a response.
pub fn event_id(stream: &str) -> &str {
    cut_at(stream).unwrap_or_else(|| panic!("no stream that began with an id and was cut: {stream:?}"))
}

/// The id that a stream began with, if it began and was cut without a response.
pub fn cut_at(stream: &str) -> Option<&str> {
    stream.lines().find_map(|l| l.strip_prefix("id: ")).filter(|_| !stream.contains("jsonrpc"))
}

/// The document of a response: the last event of a stream, or all of it.
fn document(text: &str) -> Result<Value, String> {
    let last = text.lines().filter_map(|l| l.strip_prefix("data:")).map(str::trim).rfind(|d| !d.is_empty());
    serde_json::from_str(last.unwrap_or(text)).map_err(|e| format!("{e} in {text:?}"))
}

/// The tool's result in a JSON-RPC response.
pub fn tool_result(response: &Value) -> Value {
    serde_json::from_str(response["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[derive(Clone)]
pub struct Caller {
    http: reqwest::Client,
    address: Address,
    token: String,
}

pub fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().tls_certs_only(std::iter::empty()).build().unwrap()
}

/// The same that stays where it is when it is led elsewhere.
pub fn http_unled() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().tls_certs_only(std::iter::empty()).redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

impl Caller {
    pub fn new(address: Address, token: &str) -> Self {
        Self { http: http(), address, token: token.to_owned() }
    }

    /// Any body; status and text of the answer, or why there was none.
    pub async fn post(&self, body: impl Into<reqwest::Body>) -> Result<(u16, String), reqwest::Error> {
        let response = self.request().body(body).send().await?;
        let status = response.status().as_u16();
        Ok((status, response.text().await?))
    }

    /// The JSON-RPC answer to a tool call.
    pub async fn rpc(&self, tool: &str, arguments: &Value) -> Result<Value, String> {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
        let (status, text) = self.post(body.to_string()).await.map_err(|e| e.to_string())?;
        if status != 200 {
            return Err(format!("{status}: {text}"));
        }
        document(&text)
    }

    /// A call that may find no relay.
    pub async fn try_call(&self, tool: &str, arguments: &Value) -> Result<Value, String> {
        let answer = self.rpc(tool, arguments).await?;
        assert_eq!(answer["id"], 7, "{answer}");
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        assert!(answer["result"].get("structuredContent").is_none(), "{answer}");
        let content = answer["result"]["content"].as_array().unwrap();
        assert_eq!(content.len(), 1, "{answer}");
        Ok(serde_json::from_str(content[0]["text"].as_str().unwrap()).unwrap())
    }

    /// The result of a tool; a business outcome is never an MCP error.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        soon(tool, self.try_call(tool, &arguments)).await.unwrap()
    }

    pub async fn ask(&self, to: &str, message: &str) -> Value {
        self.call("ask_agent", json!({"to": to, "message": message})).await
    }

    /// An ask that goes on while the test does something else.
    pub fn asking(&self, arguments: Value) -> JoinHandle<Value> {
        let caller = self.clone();
        tokio::spawn(async move { caller.call("ask_agent", arguments).await })
    }

    /// The response to a call as soon as it begins; a result that is waited for comes later, in its body.
    pub async fn begin(&self, tool: &str, arguments: &Value) -> reqwest::Response {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
        soon(tool, self.request().body(body.to_string()).send()).await.unwrap()
    }

    fn request(&self) -> reqwest::RequestBuilder {
        let url = format!("{}/mcp", self.address.lock().unwrap());
        let request = self.http.post(url).bearer_auth(&self.token).header("accept", "application/json, text/event-stream");
        request.header("content-type", "application/json")
    }

    /// The stream of an ask, as far as it came before it ended or was cut.
    pub fn streaming(&self, arguments: Value) -> JoinHandle<String> {
        let caller = self.clone();
        tokio::spawn(async move { caller.try_streaming(&arguments).await.unwrap() })
    }

    /// The same, where there may be no relay.
    pub async fn try_streaming(&self, arguments: &Value) -> Result<String, reqwest::Error> {
        let body = json!({"jsonrpc": "2.0", "id": "my own", "method": "tools/call", "params": {"name": "ask_agent", "arguments": arguments}});
        let (mut response, mut stream) = (self.request().body(body.to_string()).send().await?, Vec::new());
        while let Ok(Some(chunk)) = response.chunk().await {
            stream.extend_from_slice(&chunk);
        }
        Ok(String::from_utf8_lossy(&stream).into_owned())
    }

    /// Comes back for a stream that was cut, as the client SDKs do: status, and the response when it comes.
    pub async fn resume(&self, event_id: &str) -> (u16, Value) {
        soon("the response", self.try_resume(event_id)).await.unwrap()
    }

    /// The same, where there may be no relay or the stream may be cut again.
    pub async fn try_resume(&self, event_id: &str) -> Result<(u16, Value), String> {
        let url = format!("{}/mcp", self.address.lock().unwrap());
        let request = self.http.get(url).bearer_auth(&self.token).header("accept", "text/event-stream").header("last-event-id", event_id);
        let response = request.send().await.map_err(|e| e.to_string())?;
        let status = response.status().as_u16();
        let text = response.text().await.map_err(|e| e.to_string())?;
        Ok((status, document(&text)?))
    }

    /// What list_agents says of one agent; cheap however much is on record.
    pub async fn look_at(&self, agent: &str) -> Value {
        let listed = self.call("list_agents", json!({})).await;
        listed.as_array().unwrap().iter().find(|a| a["name"] == agent).unwrap().clone()
    }

    pub async fn reply(&self, request_id: &str, answer: &str) -> Value {
        self.call("reply", json!({"request_id": request_id, "answer": answer})).await
    }

    pub async fn get_answer(&self, request_id: &str, wait_seconds: u64) -> Value {
        self.call("get_answer", json!({"request_id": request_id, "wait_seconds": wait_seconds})).await
    }
}
