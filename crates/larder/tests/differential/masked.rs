//! Text in which the parts that differ between two runs of one program are masked: dates, ages and
//! durations, addresses, boundaries of parts. So are the case of names and the order of fields with
//! different names, which are insignificant (RFC 9110, 5.1 and 5.3).

use std::time::UNIX_EPOCH;

/// A masked text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Masked {
    /// The text, with `<near>` in place of each of `numbers`.
    pub text: String,
    /// Seconds and lengths, which may differ a little.
    numbers: Vec<i64>,
    /// Maximum difference between two numbers that count as equal.
    near: u64,
}

/// Maximum difference in seconds between corresponding moments of two parallel plays.
pub const SIDE_BY_SIDE: u64 = 2;

impl Masked {
    /// Reads bytes, each as the character of the same number. `names` maps texts, such as
    /// addresses, to their substitutes; `near` is the maximum difference between two numbers that
    /// count as equal.
    pub fn of(bytes: &[u8], names: &[(String, &str)], near: u64) -> Masked {
        let mut text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        for (name, stands_for) in names {
            text = text.replace(name, stands_for);
        }
        let mut masked = Masked { text: String::new(), numbers: Vec::new(), near };
        for line in in_order_of_names(&without_boundaries(text)) {
            masked.take(line);
        }
        masked
    }

    /// Returns whether two texts are equal except for small differences of their numbers.
    pub fn is_like(&self, other: &Masked) -> bool {
        self.text == other.text
            && self.numbers.len() == other.numbers.len()
            && self.numbers.iter().zip(&other.numbers).all(|(a, b)| a.abs_diff(*b) <= self.near)
    }

    /// Returns the text with its numbers, in readable form.
    pub fn shown(&self) -> String {
        let mut parts = self.text.split("<near>");
        let mut shown = parts.next().unwrap_or_default().to_owned();
        for (number, part) in self.numbers.iter().zip(parts) {
            shown.push_str(&format!("<{number}>{part}"));
        }
        shown
    }

    fn take(&mut self, line: &str) {
        if line.starts_with("{\"time\":\"") {
            return self.take_log(line);
        }
        let bare = line.trim_end_matches(['\r', '\n']);
        let end = &line[bare.len()..];
        let is_name =
            |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        let field = bare.split_once(':').filter(|(name, _)| is_name(name));
        let Some((name, value)) = field else { return self.text.push_str(line) };
        let name = name.to_ascii_lowercase();
        let line = format!("{name}:{value}{end}");
        if let Some((seconds, behind)) = seconds(value.trim()) {
            self.text.push_str(&format!("{name}: <near>{behind}{end}"));
            self.numbers.push(seconds);
        } else if name == "age"
            && let Ok(age) = value.trim().parse()
        {
            self.text.push_str(&format!("{name}: <near>{end}"));
            self.numbers.push(age);
        } else if name == "via" {
            // The name of this instance, which differs between two programs.
            self.text.push_str(&between(&line, "(", ")"));
        } else if name == "traceparent" {
            // The span of this program, which is random: version, trace, span, flags.
            let mut parts: Vec<&str> = line.split('-').collect();
            parts.get_mut(2).into_iter().for_each(|span| *span = "");
            self.text.push_str(&parts.join("-"));
        } else if name == "cache-status" {
            self.take_number(&line, "ttl=");
        } else {
            self.text.push_str(&line);
        }
    }

    /// Masks a line of the access log. Older programs estimated the bytes of a response instead of
    /// counting them, and have fewer members.
    fn take_log(&mut self, line: &str) {
        let line = between(line, "{\"time\":\"", "\"");
        let line = between(&line, "\"duration_ms\":", ",");
        let line = ["upstream_time_ms", "first_byte_ms", "request_id", "span_id", "site", "rule"]
            .iter()
            .fold(line, |line, name| without_member(&line, name));
        self.text.push_str(&between(&line, "\"bytes_out\":", ","));
    }

    /// Masks a line with a number after `mark`, which may differ a little.
    fn take_number(&mut self, line: &str, mark: &str) {
        let found = line.find(mark).and_then(|at| {
            let (before, rest) = line.split_at(at + mark.len());
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
            let number = rest[..end].parse().ok()?;
            Some((before, number, &rest[end..]))
        });
        match found {
            Some((before, number, rest)) => {
                self.text.push_str(&format!("{before}<near>{rest}"));
                self.numbers.push(number);
            }
            None => self.text.push_str(line),
        }
    }
}

/// Returns the bytes with the numbers of a text's characters.
pub fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|c| c as u8).collect()
}

/// Returns the lines of a text, those of each head sorted by name.
fn in_order_of_names(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_first = |line: &&str| line.contains("HTTP/1.");
    let mut at = 0;
    while let Some(first) = lines[at..].iter().position(is_first).map(|first| at + first + 1) {
        let is_last = |line: &&str| line.trim().is_empty();
        at = lines[first..].iter().position(is_last).map_or(lines.len(), |last| first + last);
        lines[first..at]
            .sort_by_key(|line| line.split_once(':').map(|(name, _)| name.to_ascii_lowercase()));
    }
    lines
}

/// Length of a date in the usual form.
const DATE: usize = "Sun, 06 Nov 1994 08:49:37 GMT".len();

/// Parses a date in one of the forms of HTTP; returns its seconds and the text that follows.
fn seconds(value: &str) -> Option<(i64, &str)> {
    let (time, behind) = match httpdate::parse_http_date(value) {
        Ok(time) => (time, ""),
        Err(_) => {
            let (date, behind) = value.split_at_checked(DATE)?;
            (httpdate::parse_http_date(date).ok()?, behind)
        }
    };
    Some((time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64), behind))
}

/// Removes a member of a JSON object, which is not its first one.
fn without_member(line: &str, name: &str) -> String {
    let mark = format!(",\"{name}\":");
    let Some((before, rest)) = line.split_once(&mark) else { return line.to_owned() };
    let end = rest.find(",\"").or_else(|| rest.rfind('}')).unwrap_or(rest.len());
    format!("{before}{}", &rest[end..])
}

/// Returns `line` without the text between `begin` and `end`.
fn between(line: &str, begin: &str, end: &str) -> String {
    let Some((before, rest)) = line.split_once(begin) else { return line.to_owned() };
    let Some((_, behind)) = rest.split_once(end) else { return line.to_owned() };
    format!("{before}{begin}{end}{behind}")
}

fn without_boundaries(mut text: String) -> String {
    while let Some((_, rest)) = text.split_once("; boundary=")
        && let Some((boundary, _)) = rest.split_once(['\r', '\n', '"'])
        && !boundary.is_empty()
    {
        let boundary = boundary.to_owned();
        text = text.replace(&format!("; boundary={boundary}"), "").replace(&boundary, "<boundary>");
    }
    text
}

/// Returns a text in which every response in chunks is written with a length.
pub fn with_lengths(text: &str) -> String {
    const CHUNKED: &str = "transfer-encoding: chunked\r\n";
    let Some(at) = text.find(CHUNKED) else { return text.to_owned() };
    let behind = at + CHUNKED.len();
    let Some(end) = text[behind - 2..].find("\r\n\r\n").map(|end| behind - 2 + end) else {
        return text.to_owned();
    };
    let fields = text.get(behind..end + 2).unwrap_or_default();
    let mut rest = &text[end + 4..];
    let mut body = String::new();
    while let Some((size, chunk)) = rest.split_once("\r\n") {
        let Ok(size @ 1..) = usize::from_str_radix(size, 16) else {
            rest = chunk.strip_prefix("\r\n").unwrap_or(chunk);
            break;
        };
        let Some((data, behind)) = chunk.split_at_checked(size) else { break };
        body.push_str(data);
        rest = behind.strip_prefix("\r\n").unwrap_or(behind);
    }
    let (before, length) = (&text[..at], body.len());
    let rest = with_lengths(rest);
    format!("{before}{fields}content-length: {length}\r\n\r\n{body}{rest}")
}

#[test]
fn times_a_moment_apart_are_alike_and_others_are_not() {
    let of = |text: &str| Masked::of(text.as_bytes(), &[("1.2.3.4:5".into(), "<origin>")], 2);
    let head = |date: &str, age: u32, ttl: u32| {
        of(&format!(
            "HTTP/1.1 200 OK\r\nDate: {date}\r\nage: {age}\r\nvia: 1.1 larder (a{age})\r\n\
             cache-status: larder; hit; ttl={ttl}; detail=HIT_RAM\r\nx: 1.2.3.4:5\r\n\r\n"
        ))
    };
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let first = head(date, 9, 60);
    assert!(first.is_like(&head("Sun, 06 Nov 1994 08:49:38 GMT", 10, 59)));
    assert!(first.text.contains("x: <origin>\r\n") && first.text.contains("via: 1.1 larder ()"));
    assert!(first.shown().contains("ttl=<60>; detail"));
    assert!(!first.is_like(&head("Sun, 06 Nov 1994 08:49:47 GMT", 9, 60)));
    assert!(head("Sun, 06 Nov 1994 08:49:37 GMT x", 9, 60).text.contains("date: <near> x\r\n"));
    assert!(!first.is_like(&head(date, 12, 60)) && !first.is_like(&head(date, 9, 50)));
    let log = |ms: u32, status: u32| {
        of(&format!(
            "{{\"time\":\"{ms}Z\",\"duration_ms\":{ms}.1,\"bytes_out\":{ms},\"status\":{status},\
             \"first_byte_ms\":{ms}.1,\"request_id\":\"{ms}\"}}\n"
        ))
    };
    assert!(log(1, 200).is_like(&log(2, 200)) && !log(1, 200).is_like(&log(1, 304)));
    let parts = |name: &str| of(&format!("content-type: a; boundary={name}\r\n\r\n--{name}--\r\n"));
    assert!(parts("x1").is_like(&parts("y2")));
}

#[test]
fn chunks_are_put_together() {
    let chunked = "HTTP/1.1 200 OK\r\nx: 1\r\ntransfer-encoding: chunked\r\n\r\n\
                   3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
    let plain = "HTTP/1.1 200 OK\r\nx: 1\r\ncontent-length: 5\r\n\r\nabcde\
                 HTTP/1.1 204 No Content\r\n\r\n";
    assert_eq!(with_lengths(chunked), plain);
}
