//! Times by response status: `7d` for everything that a rule applies to, or a list such as `["200
//! 7d", "404 1m"]`.

use cli::units;
use semantics::settings::lifetimes::counted_as;
use semantics::{Lifetime, Seconds, StatusPattern};

use crate::config::value::{Checked, Kind, Value};

/// A single time, or an entry of such a list.
pub const STATUS_TIME: Kind = Kind::Checked(&Checked {
    check: |text| read(text).is_some(),
    expected: "a duration such as 30s, at most 2147483648s, or one behind a status or a class",
    value_name: "TIME",
    example: "404 1m",
});

/// Returns the lifetime that a value of this kind states.
pub fn lifetime(value: &Value) -> Option<Lifetime> {
    let Value::List(texts) = value else { return None };
    let times: Option<Vec<_>> = texts.iter().map(|text| read(&text.to_string())).collect();
    let times = times?;
    if let [(None, time)] = times[..] {
        return Some(Lifetime::Same(time));
    }
    let named = times.into_iter().map(|(status, time)| Some((status?, time)));
    named.collect::<Option<_>>().map(Lifetime::ByStatus)
}

/// Parses `7d` or `404 1m`.
fn read(text: &str) -> Option<(Option<StatusPattern>, Seconds)> {
    let (status, time) = match text.split_once(' ') {
        Some((status, time)) => (Some(status.parse().ok()?), time.trim_start()),
        None => (None, text),
    };
    let time =
        units::parse_duration(time).filter(|time| time.as_secs() <= Seconds::MAX.get().into())?;
    Some((status, Seconds::new(time.as_secs())))
}

/// The statuses or classes of statuses that a rule applies to.
pub const STATUS: Kind = Kind::Checked(&Checked {
    check: Checked::read::<StatusPattern>,
    expected: "a class of statuses (2xx) or one status",
    value_name: "STATUS",
    example: "404",
});

/// Returns why a status cannot be named: it is treated like another one.
pub fn misnamed(pattern: StatusPattern) -> Option<String> {
    let StatusPattern::Status(status) = pattern else { return None };
    let whole = counted_as(status);
    (whole != status)
        .then(|| format!("expected {}, which {} is treated like", whole.as_u16(), status.as_u16()))
}

/// Returns the problem of a list of times as a whole.
pub fn problem(value: &Value) -> Option<String> {
    let Value::List(texts) = value else { return None };
    let times: Vec<_> = texts.iter().filter_map(|text| read(&text.to_string())).collect();
    let named: Vec<StatusPattern> = times.iter().filter_map(|(status, _)| *status).collect();
    if times.len() != 1 && (named.is_empty() || named.len() < times.len()) {
        let text =
            "expected one duration, or each behind a status such as [\"200 7d\", \"404 1m\"]";
        return Some(text.to_owned());
    }
    let repeated = named.iter().enumerate().find(|(at, status)| named[..*at].contains(status));
    match repeated {
        Some((at, _)) => {
            Some(format!("expected each status once, got {} again", texts[at].literal()))
        }
        None => named.into_iter().find_map(misnamed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Value {
        Value::List(texts.iter().map(|text| STATUS_TIME.parse(text).expect(text)).collect())
    }

    #[test]
    fn one_time_or_one_for_each_status() {
        assert_eq!(lifetime(&list(&["7d"])), Some(Lifetime::Same(Seconds::new(7 * 86_400))));
        let named = [("200", 60), ("4xx", 1)];
        let named = named.map(|(status, time)| (status.parse().unwrap(), Seconds::new(time)));
        let read = lifetime(&list(&["200 1m", "4xx  1s"]));
        assert_eq!(read, Some(Lifetime::ByStatus(named.to_vec())));
        for text in ["", "200", "1m 200", "2xy 1m", "200 301 1m", "200 1", "-1s", "99999d"] {
            let why = STATUS_TIME.parse(text).expect_err(text);
            assert!(why.starts_with("expected a duration such as 30s"), "{why}");
        }
    }

    #[test]
    fn a_list_that_contradicts_itself_is_refused() {
        for (texts, why) in [
            (&["1m", "404 1m"][..], "expected one duration, or each behind a status"),
            (&["1m", "1m"], "expected one duration, or each behind a status"),
            (&[], "expected one duration, or each behind a status"),
            (&["200 1m", "404 1m", "200 1h"], "expected each status once, got \"200 1h\" again"),
            (&["206 1m"], "expected 200, which 206 is treated like"),
        ] {
            let told = problem(&list(texts)).unwrap_or_default();
            assert!(told.starts_with(why), "{texts:?}: {told}");
        }
        for texts in [&["1m"][..], &["200 1m"], &["4xx 1m", "404 1h"]] {
            assert_eq!(problem(&list(texts)), None, "{texts:?}");
        }
    }
}
