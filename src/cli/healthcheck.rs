//! `healthcheck`: one request to /ready, for containers and monitors.

use std::time::Duration;

use clap::Args;

use super::{ConfigArgs, Outcome};

#[derive(Args)]
pub(crate) struct HealthcheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Address of the relay [default: where the configuration listens]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

pub(crate) fn run(args: HealthcheckArgs) -> Outcome {
    let url = match args.url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => {
            let mut config = args.config.load(None).map_err(|e| e.to_string())?;
            config.public_url = None;
            config.base_url(config.listen)
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
