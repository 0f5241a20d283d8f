//! Reading what a request brings: at most so much, in at most so long, and together with all that its sender has half sent
//! elsewhere under one bound. Whatever does not arrive whole is refused with the reason and put on record.

use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::{Response, StatusCode};

use super::gate::{Share, TooMuch};
use super::{Body, OnRecord, error, refused};
use crate::engine::Engine;

/// Bytes that one bot, or one address at the page, may have under way half sent: eight of the largest bodies.
pub(super) const MAX_HALF_SENT: usize = 32 << 20;
/// How these bounds are named to who runs into them.
pub(super) const OF_AGENT: &str = "bytes half sent by one agent";
pub(super) const OF_ADDRESS: &str = "bytes half sent by one address";
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is no body.
pub(super) enum Broken {
    TooLarge(usize),
    Cut,
    Slow,
    TooMuch(TooMuch),
}

/// The whole body. `limit` names the bound of what all of `share`'s key is.
pub(super) async fn read<K: Eq + Hash + Clone>(body: Incoming, max: usize, share: &mut Share<K>, limit: &'static str) -> Result<Bytes, Broken> {
    let whole = async {
        let (mut body, mut whole) = (Limited::new(body, max), BytesMut::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| if e.is::<LengthLimitError>() { Broken::TooLarge(max) } else { Broken::Cut })?;
            let Ok(data) = frame.into_data() else { continue };
            share.hold(whole.len() + data.len(), MAX_HALF_SENT, limit).map_err(Broken::TooMuch)?;
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    };
    tokio::time::timeout(TIMEOUT, whole).await.unwrap_or(Err(Broken::Slow))
}

impl Broken {
    /// On record, and told.
    pub(super) fn refuse(self, engine: &Engine, who: &str, address: IpAddr) -> Response<Body> {
        let (status, rule, why) = match self {
            Self::TooMuch(over) => return over.refuse(engine, who, address),
            Self::TooLarge(max) => (StatusCode::PAYLOAD_TOO_LARGE, "size of a body", format!("the body has more than {max} bytes")),
            Self::Cut => (StatusCode::BAD_REQUEST, "half a body", "the body could not be read: it ended early, or is no HTTP".to_owned()),
            Self::Slow => (StatusCode::REQUEST_TIMEOUT, "time of a body", format!("the body did not arrive within {} seconds", TIMEOUT.as_secs())),
        };
        refused(engine, rule, who, address, &why);
        let mut response = error(status, &why);
        response.extensions_mut().insert(OnRecord);
        response
    }
}
