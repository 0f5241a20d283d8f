//! The page's state as an address: what is searched, filtered and sorted stands in the URL and nowhere else. Owns reading
//! it (whatever it says, it is read) and writing links with one thing changed.

/// The parameters that every list understands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Address {
    pub q: String,
    pub status: String,
    pub agent: String,
    pub from: String,
    pub to: String,
    pub before: String,
    pub best: bool,
}

/// What is longer is cut: no name, day or cursor is.
const MAX_VALUE: usize = 200;
const MAX_QUERY: usize = 1_000;

impl Address {
    pub(super) fn read(pairs: &[(String, String)]) -> Self {
        let value = |name: &str, max: usize| {
            let found = pairs.iter().rev().find(|(n, _)| n == name).map_or("", |(_, v)| v.trim_matches('\0'));
            found.chars().filter(|c| !c.is_control()).take(max).collect::<String>()
        };
        Self {
            q: value("q", MAX_QUERY),
            status: value("status", MAX_VALUE).trim().to_owned(),
            agent: value("agent", MAX_VALUE).trim().to_owned(),
            from: value("from", MAX_VALUE).trim().to_owned(),
            to: value("to", MAX_VALUE).trim().to_owned(),
            before: value("before", MAX_VALUE),
            best: value("sort", 10) == "best",
        }
    }

    /// Nothing is searched, filtered or paged.
    pub(super) fn is_plain(&self) -> bool {
        Self { best: false, ..self.clone() } == Self::default()
    }

    /// The query string with its `?`, or nothing.
    pub(super) fn query(&self) -> String {
        let sort = if self.best { "best" } else { "" };
        let pairs = [
            ("q", &*self.q),
            ("status", &self.status),
            ("agent", &self.agent),
            ("from", &self.from),
            ("to", &self.to),
            ("sort", sort),
            ("before", &self.before),
        ];
        let set: Vec<String> = pairs.iter().filter(|(_, v)| !v.is_empty()).map(|(n, v)| format!("{n}={}", escaped(v))).collect();
        if set.is_empty() { String::new() } else { format!("?{}", set.join("&")) }
    }

    pub(super) fn list(&self) -> String {
        format!("/ui{}", self.query())
    }

    /// The list with one thing changed; a changed list begins at its top.
    pub(super) fn with(&self, change: impl FnOnce(&mut Self)) -> String {
        let mut changed = Self { before: String::new(), ..self.clone() };
        change(&mut changed);
        changed.list()
    }
}

/// Percent-encoded for a query.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_its_link() {
        let given = [("q", "étape \"a b\" & 数据 +1%"), ("status", "ok"), ("sort", "best"), ("before", "1.2")];
        let pairs: Vec<_> = given.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let address = Address::read(&pairs);
        let url = reqwest::Url::parse(&format!("http://h{}", address.list())).unwrap();
        let read: Vec<_> = url.query_pairs().map(|(a, b)| (a.into_owned(), b.into_owned())).collect();
        assert_eq!(Address::read(&read), address);
        assert!(!address.with(|a| a.status.clear()).contains("before"));
    }
}
