//! Files into rows: CSV as Postgres writes it (the first line names the columns, an empty field without quotes is NULL),
//! one JSON object a line, or the page's state with all exchanges in one. Owns line numbers; judges no value.

use std::collections::VecDeque;
use std::io::{self, BufRead};

use serde_json::{Map, Value};

pub(super) type Row = Map<String, Value>;

/// No exchange is longer; what goes on is a quote that was never closed.
const LONGEST: usize = 64 << 20;

pub(super) struct Rows<R> {
    from: R,
    csv: bool,
    columns: Option<Vec<String>>,
    line: usize,
    bytes: u64,
    /// Exchanges of a state that was read whole.
    waiting: VecDeque<Row>,
}

impl<R: BufRead> Rows<R> {
    pub(super) fn new(from: R, csv: bool) -> Self {
        Self { from, csv, columns: None, line: 0, bytes: 0, waiting: VecDeque::new() }
    }

    /// How much was read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next row with the number of its first line.
    pub(super) fn next(&mut self) -> io::Result<Option<(usize, Result<Row, String>)>> {
        loop {
            if let Some(row) = self.waiting.pop_front() {
                return Ok(Some((self.line, Ok(row))));
            }
            let Some(text) = self.line()? else { return Ok(None) };
            let line = self.line;
            if text.trim().is_empty() {
                continue;
            }
            if !self.csv {
                match json(&text) {
                    Ok(rows) => self.waiting.extend(rows),
                    Err(why) => return Ok(Some((line, Err(why)))),
                }
                continue;
            }
            let fields = match self.record(text)? {
                Ok(fields) => fields,
                Err(why) => return Ok(Some((line, Err(why)))),
            };
            match &self.columns {
                Some(columns) => return Ok(Some((line, named(columns, fields)))),
                None => {
                    let names: Vec<String> = fields.into_iter().map(|f| f.as_str().unwrap_or_default().trim().to_owned()).collect();
                    if !names.iter().any(|n| n == "request_id") {
                        let why = "the first line must name the columns (request_id, ..): export with CSV HEADER".to_owned();
                        self.columns = Some(names);
                        return Ok(Some((line, Err(why))));
                    }
                    self.columns = Some(names);
                }
            }
        }
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        let n = self.from.read_until(b'\n', &mut bytes)?;
        self.bytes += n as u64;
        self.line += 1;
        // What is no UTF-8 cannot have been in the table; it is shown as such.
        Ok((n > 0).then(|| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The fields of a record that begins with this line; texts may go on over many.
    fn record(&mut self, first: String) -> io::Result<Result<Vec<Value>, String>> {
        let mut text = first;
        loop {
            match fields(text.trim_start_matches('\u{feff}')) {
                Fields::Whole(fields) => return Ok(Ok(fields)),
                Fields::Wrong(why) => return Ok(Err(why)),
                Fields::GoesOn if text.len() > LONGEST => return Ok(Err("a quote is never closed".to_owned())),
                Fields::GoesOn => match self.line()? {
                    Some(more) => text.push_str(&more),
                    None => return Ok(Err("a quote is never closed".to_owned())),
                },
            }
        }
    }
}

enum Fields {
    Whole(Vec<Value>),
    GoesOn,
    Wrong(String),
}

fn fields(text: &str) -> Fields {
    // Told cheaply, so that a text of many lines is not cut anew at each.
    if text.bytes().filter(|b| *b == b'"').count() % 2 == 1 {
        return Fields::GoesOn;
    }
    let mut all = Vec::new();
    let mut rest = text.strip_suffix('\n').map_or(text, |t| t.strip_suffix('\r').unwrap_or(t));
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut value = String::new();
            let mut left = quoted;
            loop {
                let Some((piece, after)) = left.split_once('"') else { return Fields::GoesOn };
                value.push_str(piece);
                match after.strip_prefix('"') {
                    Some(more) => {
                        value.push('"');
                        left = more;
                    }
                    None => {
                        rest = after;
                        break;
                    }
                }
            }
            all.push(Value::from(value));
            if rest.is_empty() {
                return Fields::Whole(all);
            }
            let Some(after) = rest.strip_prefix(',') else { return Fields::Wrong("a closing quote is not followed by a comma".to_owned()) };
            rest = after;
        } else {
            let (value, after) = rest.split_once(',').map_or((rest, None), |(v, a)| (v, Some(a)));
            all.push(if value.is_empty() { Value::Null } else { Value::from(value) });
            match after {
                Some(after) => rest = after,
                None => return Fields::Whole(all),
            }
        }
    }
}

fn named(columns: &[String], fields: Vec<Value>) -> Result<Row, String> {
    if columns.len() != fields.len() {
        return Err(format!("{} fields where the first line names {} columns", fields.len(), columns.len()));
    }
    Ok(columns.iter().cloned().zip(fields).collect())
}

fn json(text: &str) -> Result<Vec<Row>, String> {
    let value: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|e| format!("no JSON object: {e}"))?;
    let objects = |list: Vec<Value>| {
        let row = |value| if let Value::Object(row) = value { Ok(row) } else { Err("an exchange is a JSON object".to_owned()) };
        list.into_iter().map(row).collect()
    };
    match value {
        Value::Object(mut row) => match row.remove("exchanges") {
            Some(Value::Array(list)) => objects(list),
            _ => Ok(vec![row]),
        },
        Value::Array(list) => objects(list),
        _ => Err("an exchange is a JSON object".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, csv: bool) -> Vec<(usize, Result<Row, String>)> {
        let mut rows = Rows::new(text.as_bytes(), csv);
        std::iter::from_fn(|| rows.next().unwrap()).collect()
    }

    #[test]
    fn csv_is_read_as_postgres_writes_it() {
        let text = "request_id,message,answer\r\n1,\"a \"\"quoted\"\", word\nand a line\",\r\n\n2,plain,\"\"\n";
        let rows = read(text, true);
        let row = |n: usize| rows[n].1.as_ref().unwrap();
        assert_eq!((rows.len(), rows[0].0, rows[1].0), (2, 2, 5));
        assert_eq!((&row(0)["message"], &row(0)["answer"]), (&Value::from("a \"quoted\", word\nand a line"), &Value::Null));
        assert_eq!((&row(1)["message"], &row(1)["answer"]), (&Value::from("plain"), &Value::from("")));
    }

    #[test]
    fn a_wrong_line_is_told_with_its_number_and_the_next_is_read() {
        let rows = read("request_id,message\n1,one,more\n2,\"x\"y\n3,fine\n4,\"never closed\n", true);
        let wrong: Vec<usize> = rows.iter().filter(|(_, r)| r.is_err()).map(|(n, _)| *n).collect();
        assert_eq!((wrong, rows[2].1.as_ref().unwrap()["message"].as_str()), (vec![2, 3, 5], Some("fine")));
        assert!(read("1,2,3\n", true)[0].1.as_ref().unwrap_err().contains("CSV HEADER"));
        assert!(read("[1]\n", false)[0].1.is_err() && read("nonsense\n", false)[0].1.is_err());
    }

    #[test]
    fn json_is_a_line_an_exchange_or_the_pages_state() {
        assert_eq!(read("{\"request_id\":\"1\"}\n\n{\"request_id\":\"2\"}", false).len(), 2);
        assert_eq!(read("{\"agents\":[],\"exchanges\":[{\"request_id\":\"1\"},{\"request_id\":\"2\"}]}", false).len(), 2);
    }

    #[test]
    fn nothing_makes_it_panic() {
        proptest::proptest!(|(text in "(request_id|,|\"|\n|\r|é|a|\\{|\\}|\\[){0,40}", csv: bool)| { read(&text, csv); });
    }
}
