//! The MCP door: rmcp's streamable HTTP server, stateless, with the caller's identity taken from each request's token;
//! tool calls of older clients, which is most of the traffic, go through `legacy`. Owns how tools are announced and how
//! results become MCP results; what the tools do is `tools`.

mod legacy;
mod stream;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response, StatusCode};
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::gate::Gate;
use super::tools::{self, Context};
use super::{Body, body};
use crate::core::trace;
use crate::engine::{Engine, Pass};
use crate::wire;

/// Bodies are read up to here, so that a question that is too long is refused as an outcome and recorded.
const MAX_BODY: usize = 4 << 20;
const INSTRUCTIONS: &str =
    "Other agents can be asked for what they know or can do. list_agents shows them, ask_agent asks one and waits for the answer.";

#[derive(Clone)]
pub(super) struct Mcp {
    engine: Arc<Engine>,
    gate: Arc<Gate>,
    service: StreamableHttpService<Door, NeverSessionManager>,
    /// A comment on the stream this often keeps proxies and clients from giving up.
    keep_alive: Duration,
}

/// What serves one request; shared, because building schemas for every request is what made the original slow.
#[derive(Clone)]
struct Door {
    engine: Arc<Engine>,
    tools: Arc<Vec<Tool>>,
}

impl Mcp {
    pub(super) fn new(engine: Arc<Engine>, gate: Arc<Gate>, stop: CancellationToken) -> Self {
        let keep_alive = engine.config().keep_alive;
        let door = Door { engine: engine.clone(), tools: Arc::new(announced()) };
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(false)
            .with_sse_keep_alive(Some(keep_alive))
            .with_sse_retry(None)
            .with_max_request_body_bytes(MAX_BODY)
            // Host and Origin are checked for every route before this one.
            .with_allowed_hosts(Vec::<String>::new())
            .with_cancellation_token(stop);
        let service = StreamableHttpService::new(move || Ok(door.clone()), Arc::default(), config);
        Self { engine, gate, service, keep_alive }
    }

    pub(super) async fn handle(&self, request: Request<Incoming>, pass: Pass, address: IpAddr) -> Response<Body> {
        let room = match self.gate.call(&pass.name, &self.engine.config().doors) {
            Ok(room) => room,
            Err(over) => return over.refuse(&self.engine, pass.name.as_str(), address),
        };
        let context = Context { caller: pass.name.clone(), address, call_id: None, traceparent: None, room: room.clone() };
        let asked = (request.method().clone(), request.uri().clone());
        let response = tokio::select! {
            response = self.answer(request, context.clone()) => response,
            () = self.engine.revoked(pass.clone()) => return super::auth::unauthorized(),
        };
        // With GET every client asks for a stream of news and with DELETE it leaves a session; that there are none is no refusal.
        if response.status() != StatusCode::METHOD_NOT_ALLOWED {
            super::misfit(&self.engine, context.caller.as_str(), address, &asked, &response);
        }
        let revoked = self.engine.revoked(pass);
        response.map(|body| room.held_by(body, revoked))
    }

    async fn answer(&self, request: Request<Incoming>, context: Context) -> Response<Body> {
        if request.method() == hyper::Method::GET
            && let Some(event) = request.headers().get("last-event-id").and_then(|v| v.to_str().ok())
        {
            return legacy::resume(&self.engine, context, event, self.keep_alive).await;
        }
        if *request.method() != hyper::Method::POST {
            return super::wrong_method("POST");
        }
        let (mut parts, body) = request.into_parts();
        let mut share = self.gate.half_sent.share(context.caller.clone());
        let body = match body::read(body, MAX_BODY, &mut share, body::OF_AGENT).await {
            Ok(body) => body,
            Err(broken) => return broken.refuse(&self.engine, context.caller.as_str(), context.address),
        };
        drop(share);
        if let Some(call) = legacy::recognise(&parts.headers, &body) {
            return legacy::answer(&self.engine, context, call, &parts.headers, self.keep_alive).await;
        }
        parts.extensions.insert(context);
        let service = self.service.clone();
        let request = Request::from_parts(parts, Full::<Bytes>::new(body));
        let answer = async move { service.handle(request).await.map(|body| body.map_err(|never| match never {}).boxed_unsync()) };
        stream::early(answer, self.keep_alive).await
    }
}

/// The caller's trace context: the call's own `_meta` wins over the HTTP header, what is no traceparent is nothing.
fn traceparent(meta: Option<&str>, headers: &HeaderMap) -> Option<String> {
    let header = || headers.get("traceparent")?.to_str().ok();
    trace::traceparent(meta.or_else(header)?)
}

fn announced() -> Vec<Tool> {
    let announce = |t: wire::tools::Tool| {
        let schema = t.schema.as_object().cloned().unwrap_or_default();
        let hints = ToolAnnotations::with_title(t.title).read_only(t.read_only).open_world(false);
        let hints = if t.read_only { hints } else { hints.destructive(false) };
        Tool::new(t.name, t.description, schema).with_title(t.title).with_annotations(hints)
    };
    wire::tools::all().into_iter().map(announce).collect()
}

impl ServerHandler for Door {
    fn get_info(&self) -> ServerConfig {
        let me = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build()).with_server_info(me).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        let mut result = ListToolsResult::with_all_items(self.tools.to_vec());
        // The list stands behind a token.
        result.cache_scope = Some(CacheScope::Private);
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|t| t.name == name).cloned()
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let parts = context.extensions.get::<hyper::http::request::Parts>();
        let Some((parts, caller)) = parts.and_then(|p| Some((p, p.extensions.get::<Context>()?))) else {
            return Err(ErrorData::internal_error("no caller", None));
        };
        let traceparent = traceparent(context.meta.get_traceparent(), &parts.headers);
        let arguments = request.arguments.unwrap_or_default();
        let beside = Context { traceparent, ..caller.clone() };
        let called = tools::call(&self.engine, &request.name, arguments, &beside);
        // The caller left: the exchange goes on without it, its answer is kept.
        let Some(outcome) = context.ct.run_until_cancelled(called).await else {
            return Err(ErrorData::internal_error("the caller left", None));
        };
        match outcome {
            Ok(json) => Ok(CallToolResult::success(vec![ContentBlock::text(json)]).into()),
            Err(unknown @ wire::tools::Misuse::UnknownTool(_)) => Err(ErrorData::invalid_params(Cow::from(unknown.to_string()), None)),
            Err(misuse) => Ok(CallToolResult::error(vec![ContentBlock::text(misuse.to_string())]).into()),
        }
    }
}
