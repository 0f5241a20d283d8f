//! As much YAML as a config.yaml of the TypeScript relay has: mappings, lists, scalars, quotes, comments, `{..}` and `[..]`
//! on one line. What goes beyond that is refused with its line, never guessed at.

use serde_json::{Map, Value};

/// A line that says something.
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

const DEEPEST: usize = 20;

pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut lines = Vec::new();
    for (n, raw) in text.lines().enumerate() {
        let line = uncommented(raw.trim_start_matches('\u{feff}')).trim_end();
        let text = line.trim_start_matches(' ');
        if text.starts_with('\t') {
            return Err(format!("line {}: a tab indents it; YAML wants spaces", n + 1));
        }
        if !text.is_empty() && text != "---" {
            lines.push(Line { number: n + 1, indent: line.len() - text.len(), text });
        }
    }
    if lines.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let mut at = 0;
    let value = block(&mut lines, &mut at, 0)?;
    match lines.get(at) {
        None => Ok(value),
        Some(line) => Err(format!("line {}: its indentation fits nothing above it", line.number)),
    }
}

/// Without what follows a `#` that begins a word outside quotes.
fn uncommented(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in line.char_indices() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '#' && before.is_whitespace() => return &line[..at],
            None if matches!(c, '"' | '\'') && !before.is_alphanumeric() => quote = Some(c),
            None => {}
        }
        before = c;
    }
    line
}

fn block(lines: &mut [Line<'_>], at: &mut usize, depth: usize) -> Result<Value, String> {
    let (indent, number) = (lines[*at].indent, lines[*at].number);
    if depth > DEEPEST {
        return Err(format!("line {number}: nested too deeply"));
    }
    if lines[*at].text == "-" || lines[*at].text.starts_with("- ") { list(lines, at, indent, depth) } else { mapping(lines, at, indent, depth) }
}

fn list(lines: &mut [Line<'_>], at: &mut usize, indent: usize, depth: usize) -> Result<Value, String> {
    let mut items = Vec::new();
    while let Some(line) = lines.get_mut(*at).filter(|l| l.indent == indent && (l.text == "-" || l.text.starts_with("- "))) {
        let rest = line.text[1..].trim_start();
        if rest.is_empty() {
            *at += 1;
            items.push(nested(lines, at, indent, depth)?);
        } else if rest.starts_with(['{', '[', '"', '\'']) || split(rest).is_none() {
            items.push(scalar(rest).map_err(|why| format!("line {}: {why}", line.number))?);
            *at += 1;
        } else {
            // The item is a mapping that begins behind the dash.
            line.indent += line.text.len() - rest.len();
            line.text = rest;
            items.push(block(lines, at, depth + 1)?);
        }
    }
    Ok(Value::Array(items))
}

fn mapping(lines: &mut [Line<'_>], at: &mut usize, indent: usize, depth: usize) -> Result<Value, String> {
    let mut map = Map::new();
    while let Some(line) = lines.get(*at).filter(|l| l.indent == indent) {
        let number = line.number;
        let wrong = |why: &str| format!("line {number}: {why}");
        let (key, rest) = split(line.text).ok_or_else(|| wrong("`key: value` is expected"))?;
        let key = scalar(key).map_err(|why| wrong(&why))?.as_str().map(str::to_owned).ok_or_else(|| wrong("a key is a word"))?;
        *at += 1;
        let value = if rest.is_empty() { nested(lines, at, indent, depth)? } else { scalar(rest).map_err(|why| wrong(&why))? };
        if map.insert(key.clone(), value).is_some() {
            return Err(wrong(&format!("{key} is there twice")));
        }
    }
    Ok(Value::Object(map))
}

/// What stands below a key or dash; a list may stand at the key's own indentation.
fn nested(lines: &mut [Line<'_>], at: &mut usize, indent: usize, depth: usize) -> Result<Value, String> {
    match lines.get(*at) {
        Some(line) if line.indent > indent || (line.indent == indent && line.text.starts_with("- ")) => block(lines, at, depth + 1),
        _ => Ok(Value::Null),
    }
}

/// Key and rest at the first `: ` (or final `:`) outside quotes.
fn split(text: &str) -> Option<(&str, &str)> {
    let quoted = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let from = match quoted {
        Some(q) => text[1..].find(q)? + 2,
        None => 0,
    };
    let at = from + text[from..].match_indices(':').find(|(i, _)| text[from + i + 1..].is_empty() || text[from + i + 1..].starts_with(' '))?.0;
    Some((text[..at].trim_end(), text[at + 1..].trim()))
}

fn scalar(text: &str) -> Result<Value, String> {
    let mut rest = text;
    let value = flow(&mut rest, false, 0)?;
    if rest.trim().is_empty() { Ok(value) } else { Err(format!("{rest:?} is left over")) }
}

fn flow(rest: &mut &str, inside: bool, depth: usize) -> Result<Value, String> {
    *rest = rest.trim_start();
    match rest.chars().next() {
        _ if depth > DEEPEST => Err("nested too deeply".to_owned()),
        Some(open @ ('{' | '[')) => collection(rest, open == '{', depth),
        Some(q @ ('"' | '\'')) => quoted(rest, q).map(Value::from),
        Some('&' | '*' | '!' | '|' | '>' | '%' | '@' | '`') => Err("this kind of YAML is not understood; write the value plainly".to_owned()),
        _ => {
            let end = if inside { rest.find([',', '}', ']']).unwrap_or(rest.len()) } else { rest.len() };
            let (word, after) = rest.split_at(end);
            *rest = after;
            Ok(plain(word.trim()))
        }
    }
}

fn plain(word: &str) -> Value {
    match word {
        "" | "~" | "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        number => number.parse::<u64>().map_or_else(|_| Value::from(number), Value::from),
    }
}

fn quoted(rest: &mut &str, quote: char) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = rest[1..].char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                out.push('\'');
                chars.next();
            }
            c if c == quote => {
                *rest = &rest[1 + at + 1..];
                return Ok(out);
            }
            '\\' if quote == '"' => match chars.next() {
                Some((_, 'n')) => out.push('\n'),
                Some((_, 't')) => out.push('\t'),
                Some((_, c @ ('"' | '\\' | '/'))) => out.push(c),
                _ => return Err("this escape is not understood".to_owned()),
            },
            c => out.push(c),
        }
    }
    Err("a quote is not closed on its line".to_owned())
}

fn collection(rest: &mut &str, is_map: bool, depth: usize) -> Result<Value, String> {
    let close = if is_map { '}' } else { ']' };
    let (mut map, mut items) = (Map::new(), Vec::new());
    *rest = &rest[1..];
    loop {
        *rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix(close) {
            *rest = after;
            return Ok(if is_map { Value::Object(map) } else { Value::Array(items) });
        }
        if is_map {
            let (key, after) = split(rest).ok_or("`key: value` is expected in { }")?;
            let key = scalar(key)?.as_str().map(str::to_owned).ok_or("a key is a word")?;
            *rest = after;
            map.insert(key, flow(rest, true, depth + 1)?);
        } else {
            items.push(flow(rest, true, depth + 1)?);
        }
        *rest = rest.trim_start();
        match rest.chars().next() {
            Some(',') => *rest = &rest[1..],
            Some(c) if c == close => {}
            _ => return Err(format!("{close} is missing on this line")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse;

    #[test]
    fn a_configuration_is_read_in_every_usual_way_of_writing_it() {
        let expected = json!({"agents": [{"name": "alice", "token": "a: #1"}, {"name": "bob", "token": "t2"}], "ask_timeout_ms": 90000, "db": null});
        for text in [
            "agents:\n  - name: alice\n    token: 'a: #1'   # hers\n  - name: bob\n    token: t2\nask_timeout_ms: 90000\ndb:\n",
            "---\n# all\nagents:\n- {name: alice, token: \"a: #1\"}\n- {name: bob, token: t2}\n\nask_timeout_ms: 90000 # ms\ndb: ~\n",
            "agents: [{name: alice, token: \"a: #1\"}, {name: 'bob', token: t2}]\r\nask_timeout_ms: 90000\r\ndb: null\r\n",
            "agents:\n  -\n    name: \"alice\"\n    token: 'a: #1'\n  - token: t2\n    name: bob\nask_timeout_ms: 90000\ndb:",
        ] {
            assert_eq!(parse(text), Ok(expected.clone()), "{text}");
        }
        assert_eq!(
            parse("a:\n  b:\n    c: https://h:1/x?y=z\n  d: ${TOKEN}\n"),
            Ok(json!({"a": {"b": {"c": "https://h:1/x?y=z"}, "d": "${TOKEN}"}}))
        );
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        for (text, line) in [
            ("a: 1\n\tb: 2\n", 2),
            ("a: |\n  text\n", 1),
            ("a: *anchor\n", 1),
            ("a: 1\n   b: 2\n", 2),
            ("a: 1\na: 2\n", 2),
            ("just words\n", 1),
            ("a: [1, 2\n", 1),
            ("a: \"open\n", 1),
            ("a: 'x' y\n", 1),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(&format!("line {line}: ")), "{text:?}: {error}");
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        proptest::proptest!(|(text in "(a|: |:|- |-|\\{|\\}|\\[|\\]|,|\"|'|#| |  |\n|\t|é|\\\\){0,40}")| { let _ = parse(&text); });
        assert!(parse(&"[".repeat(100_000)).is_err() && parse(&format!("a: {}", "{a: ".repeat(100_000))).is_err());
        assert!(parse(&(0..1_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect::<String>()).is_err());
    }
}
