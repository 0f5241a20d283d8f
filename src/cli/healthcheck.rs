//! `healthcheck`: one request to /ready, for containers and monitors.

use std::time::Duration;

use clap::Args;

use super::client::running_at;
use super::{ConfigArgs, Outcome};
use crate::config::local_url;

#[derive(Args)]
pub(crate) struct HealthcheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Address of the relay [default: where the relay of this data directory listens]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

pub(crate) fn run(args: HealthcheckArgs) -> Outcome {
    let url = match args.url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => {
            let config = args.config.load(None).map_err(|e| e.to_string())?;
            running_at(&config)?.unwrap_or_else(|| local_url(config.listen))
        }
    };
    super::runtime()?.block_on(async {
        let client = super::client::http(&url).timeout(Duration::from_secs(5)).build().map_err(|e| e.to_string())?;
        let response = client.get(format!("{url}/ready")).send().await.map_err(|e| format!("{url} does not answer: {}", e.without_url()))?;
        let (status, text) = (response.status(), response.text().await.unwrap_or_default());
        println!("{text}");
        Ok(u8::from(!status.is_success()))
    })
}
