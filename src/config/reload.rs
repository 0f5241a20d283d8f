//! A configuration that is read anew by a running relay: what of it is taken over at once, and the names of the changed keys
//! that wait for the next start.

use super::{Config, DoorLimits, Scrape};
use crate::core::policy::Limits;

/// The fields of two structs that differ, by name. No `..` in it: a new limit has to be named before it compiles.
macro_rules! differing {
    ($old:expr, $new:expr, $of:ident { $($field:ident),* $(,)? }) => {{
        let $of { $($field),* } = $new;
        [$((stringify!($field), $old.$field != *$field)),*]
    }};
}

impl Config {
    /// This one with all of `new` that can be taken over while the relay runs; and the keys of the rest that `new` has other
    /// values for.
    #[must_use]
    pub fn taking_over(&self, mut new: Self) -> (Self, Vec<&'static str>) {
        let rules = differing!(
            self.limits,
            &new.limits,
            Limits {
                ask_timeout_ms,
                reconnect_grace_ms,
                queue_ttl_ms,
                max_exchange_ms,
                max_message_bytes,
                max_answer_bytes,
                max_frame_bytes,
                max_wakes_per_agent,
                max_waiting_per_agent,
                max_waiting_bytes_per_agent,
                asks_per_minute,
                max_open_asks_per_agent,
                max_open_bytes_per_agent,
                max_timeouts_in_a_row,
                silent_rest_ms,
                max_depth,
                max_asks_per_root,
                max_turns_per_conversation,
                max_asks_per_pair_per_hour,
            }
        );
        let doors = differing!(
            self.doors,
            &new.doors,
            DoorLimits {
                max_connections,
                max_connections_per_agent,
                max_connections_per_address,
                max_calls_per_agent,
                requests_per_second,
                requests_per_second_per_address,
                searches_per_second,
            }
        );
        let others = [
            ("listen", self.listen != new.listen),
            ("data_dir", self.data_dir != new.data_dir),
            ("keep_alive_ms", self.keep_alive != new.keep_alive),
            ("ping_interval_ms", self.ping_interval != new.ping_interval),
            ("log_format", self.log_format != new.log_format),
            ("[metrics] listen", self.scrape.listen != new.scrape.listen),
            ("[langfuse]", self.langfuse != new.langfuse),
            ("[otlp]", self.otlp != new.otlp),
        ];
        let waiting = others.into_iter().chain(rules).chain(doors).filter_map(|(key, differs)| differs.then_some(key)).collect();
        new.put_data_in(&self.data_dir);
        (self.with(new), waiting)
    }

    /// No `..` here either: what is taken over stands below, what waits is named above.
    fn with(&self, new: Self) -> Self {
        let Self {
            path: _,
            listen: _,
            data_dir: _,
            limits: _,
            doors: _,
            keep_alive: _,
            ping_interval: _,
            log_format: _,
            langfuse: _,
            otlp: _,
            scrape,
            public_url,
            allowed_hosts,
            ask_max_wait,
            keep_answers,
            on_store_failure,
            backups,
            retention,
            ui,
            trusted_proxies,
            agents,
            permissions,
            clear_tokens,
        } = new;
        let scrape = Scrape { listen: self.scrape.listen, token: scrape.token };
        Self {
            public_url,
            allowed_hosts,
            ask_max_wait,
            keep_answers,
            on_store_failure,
            backups,
            retention,
            ui,
            trusted_proxies,
            scrape,
            agents,
            permissions,
            clear_tokens,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file;

    fn parse(text: &str) -> Config {
        file::parse(text, Some(std::path::Path::new("conf/bridge.toml")), &|_| None).unwrap()
    }

    #[test]
    fn what_can_be_taken_over_is_and_the_rest_is_named() {
        let old = parse("");
        let text = "listen = \"127.0.0.1:1\"\nallowed_hosts = [\"h\"]\ndata_dir = \"elsewhere\"\nask_timeout_ms = 5000\nask_max_wait_ms = 7000\n\
            [limits]\nmax_depth = 3\nsearches_per_second = 4\n[backup]\nevery = \"1h\"\n[retention]\ndays = 9\n\
            [metrics]\nlisten = \"127.0.0.1:2\"\ntoken = \"read-me\"\n[otlp]\nendpoint = \"http://c\"\n[[agents]]\nname = \"carol\"\ntoken = \"tok-carol\"\n";
        let new = parse(text);
        let (taken, waiting) = old.taking_over(new.clone());
        assert_eq!(waiting, ["listen", "data_dir", "[metrics] listen", "[otlp]", "ask_timeout_ms", "max_depth", "searches_per_second"]);
        let mut wanted = Config {
            allowed_hosts: vec!["h".into()],
            ask_max_wait: new.ask_max_wait,
            backups: new.backups.clone(),
            retention: new.retention.clone(),
            scrape: Scrape { listen: None, token: new.scrape.token },
            agents: new.agents.clone(),
            clear_tokens: new.clear_tokens.clone(),
            ..old.clone()
        };
        wanted.backups.as_mut().unwrap().dir = "conf/data/backups".into();
        assert_eq!(taken, wanted);
        assert_eq!(taken.taking_over(taken.clone()), (taken.clone(), Vec::new()));
        assert_eq!(taken.taking_over(new).1, waiting, "what waits is named again as long as it waits");
    }
}
