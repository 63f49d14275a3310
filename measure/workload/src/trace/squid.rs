//! Squid's native access log: `time elapsed client outcome/status bytes method URL user
//! hierarchy/peer type`, separated by spaces.
//!
//! C17 keeps eight of the outcomes, also under their later names in Squid. Bytes are those sent to
//! the client, including the head.

use store::Kind;

use super::event::{self, Event, Measure, SkipReason, hash, millis, number, shown};
use super::filter::Filter;
use super::outcome::Outcome;
use super::url::Url;

/// The outcomes that C17 keeps, with their names since Squid 3.2.
const KEPT: [&[u8]; 12] = [
    b"TCP_HIT",
    b"TCP_MEM_HIT",
    b"TCP_MISS",
    b"TCP_REFRESH_HIT",
    b"TCP_REFRESH_MISS",
    b"TCP_REF_FAIL_HIT",
    b"TCP_IMS_HIT",
    b"TCP_IMS_MISS",
    b"TCP_REFRESH_UNMODIFIED",
    b"TCP_REFRESH_MODIFIED",
    b"TCP_REFRESH_FAIL_OLD",
    b"TCP_INM_HIT",
];

/// Parses a line.
///
/// # Errors
/// A description of what is wrong with the line.
pub(super) fn parse(line: &[u8], filter: Filter) -> Result<Event, String> {
    let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    let mut field = |name: &str| fields.next().ok_or_else(|| format!("no {name}: the line ends"));
    let time = field("time")?;
    let time_ms =
        millis(time).ok_or_else(|| format!("the time {} is not a number", shown(time)))?;
    let elapsed = field("elapsed time")?;
    if number(elapsed.strip_prefix(b"-").unwrap_or(elapsed)).is_none() {
        return Err(format!("the elapsed time {} is not a number", shown(elapsed)));
    }
    let client = field("client")?;
    let result = field("outcome and status")?;
    let slash = result.iter().position(|byte| *byte == b'/');
    let outcome_status = slash.and_then(|slash| {
        let status = number(&result[slash + 1..]).and_then(|status| u16::try_from(status).ok())?;
        Some((&result[..slash], status))
    });
    let (outcome, status) = outcome_status.ok_or_else(|| {
        format!("{} is not an outcome with a status (TCP_MISS/200)", shown(result))
    })?;
    let bytes = field("number of bytes")?;
    let size = number(bytes).ok_or_else(|| format!("{} is not a number of bytes", shown(bytes)))?;
    let method = event::method(field("method")?);
    let name = field("URL")?;
    let content_type = fields.nth(2);
    let url = Url::new(name);
    let mut event = Event {
        time_ms,
        object: hash(name),
        site: url.site,
        group: url.group,
        client: hash(client),
        size: (status != 304).then_some(size),
        measure: if status == 206 { Measure::Part } else { Measure::SentWithHead },
        kind: match content_type {
            Some(b"text/html") => Kind::Html,
            Some(b"-") | None => url.kind,
            Some(_) => Kind::Other,
        },
        method,
        status,
        skip_reason: event::skip_reason(method, url.is_dynamic, status, filter),
        ..Event::default()
    };
    let is_kept = filter != Filter::Papers || KEPT.contains(&outcome);
    event.skip_reason = event.skip_reason.or((!is_kept).then_some(SkipReason::Outcome));
    Outcome::apply(outcome, &mut event);
    Ok(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "982800000.123    105 10.0.0.1 TCP_MISS/200 4321 GET \
                        http://www.example.com/a/b.html - DIRECT/192.0.2.1 text/html";

    #[test]
    fn a_line_says_everything() {
        let event = parse(LINE.as_bytes(), Filter::Served).unwrap();
        let url = Url::new(b"http://www.example.com/a/b.html");
        let expected = Event {
            time_ms: 982_800_000_123,
            object: hash(b"http://www.example.com/a/b.html"),
            site: url.site,
            group: url.group,
            client: hash(b"10.0.0.1"),
            size: Some(4_321),
            measure: Measure::SentWithHead,
            kind: Kind::Html,
            status: 200,
            ..Event::default()
        };
        assert_eq!(event, expected);
    }

    #[test]
    fn requests_that_count() {
        let reasons = |from: &str, to: &str| {
            let line = LINE.replace(from, to);
            [Filter::Papers, Filter::Served]
                .map(|filter| parse(line.as_bytes(), filter).unwrap().skip_reason)
        };
        for kept in KEPT {
            let kept = String::from_utf8_lossy(kept);
            assert_eq!(reasons("TCP_MISS", &kept), [None; 2], "{kept}");
        }
        for other in ["TCP_CLIENT_REFRESH_MISS", "TCP_SWAPFAIL_MISS", "TCP_CF_HIT"] {
            assert_eq!(reasons("TCP_MISS", other), [Some(SkipReason::Outcome), None], "{other}");
        }
        for other in ["TCP_DENIED", "TCP_TUNNEL", "UDP_HIT"] {
            assert_eq!(reasons("TCP_MISS", other), [Some(SkipReason::Outcome); 2], "{other}");
        }
        assert_eq!(reasons("GET", "POST"), [Some(SkipReason::Method); 2]);
        assert_eq!(reasons("b.html", "b?x"), [Some(SkipReason::Dynamic), None]);
        assert_eq!(reasons("/200", "/404"), [Some(SkipReason::Status), None]);
        assert_eq!(reasons("/200", "/206"), [Some(SkipReason::Status), None]);
        assert_eq!(reasons("/200", "/302"), [Some(SkipReason::Status); 2]);
        assert_eq!(reasons("/200", "/304"), [None; 2]);
    }

    #[test]
    fn versions_and_sizes() {
        let event = |from: &str, to: &str| {
            parse(LINE.replace(from, to).as_bytes(), Filter::Served).unwrap()
        };
        assert!(event("TCP_MISS", "TCP_REFRESH_MISS").is_new_version);
        assert!(!event("TCP_MISS/200", "TCP_REFRESH_MISS/304").is_new_version);
        assert_eq!(event("TCP_MISS/200", "TCP_IMS_HIT/304").size, None);
        assert!(event("TCP_MISS", "TCP_MEM_HIT").is_hit && !event("", "").is_hit);
        for part in ["TCP_MISS/206", "TCP_HIT_ABORTED/200"] {
            assert_eq!(event("TCP_MISS/200", part).measure, Measure::Part, "{part}");
        }
        // Logs without a type, and with a different one.
        assert_eq!(event(" - DIRECT/192.0.2.1 text/html", "").kind, Kind::Html);
        assert_eq!(event("text/html", "image/gif").kind, Kind::Other);
    }

    #[test]
    fn damage_is_named() {
        let what = |from: &str, to: &str| {
            parse(LINE.replace(from, to).as_bytes(), Filter::Served).unwrap_err()
        };
        assert!(what("982800000.123", "98x").contains("\"98x\" is not a number"));
        assert!(what("105", "now").contains("elapsed time \"now\""));
        assert!(what("TCP_MISS/200", "TCP_MISS").contains("not an outcome"));
        assert!(what("/200", "/70000").contains("not an outcome"));
        assert!(what("4321", "-").contains("\"-\" is not a number of bytes"));
        assert!(parse(b"", Filter::Served).unwrap_err().contains("no time"));
        assert!(
            parse(b"1.0 5 c TCP_HIT/200 9 GET", Filter::Served).unwrap_err().contains("no URL")
        );
    }
}
