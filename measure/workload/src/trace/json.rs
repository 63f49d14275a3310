//! Logs with one JSON object in each line: those of Larder and Caddy, and the usual ones of nginx
//! (`log_format … escape=json`), whose members are called like its variables.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::event::Event;
use super::filter::Filter;
use super::named::{Field, Named, Values};

/// Parses a line.
///
/// # Errors
/// A description of what is wrong with the line.
pub(super) fn parse(line: &[u8], filter: Filter) -> Result<Event, String> {
    let mut values = Values::default();
    let mut json = serde_json::Deserializer::from_slice(line);
    let members = Members { values: &mut values, field: None };
    let read = members.deserialize(&mut json).and_then(|()| json.end());
    read.map_err(|error| format!("not an object in JSON: {error}"))?;
    values.event(filter)
}

/// The reader of a value: of an object's members if it is the line, or Caddy's `request`, else of a
/// text, number or truth value.
struct Members<'v, 'de> {
    values: &'v mut Values<'de>,
    field: Option<Named>,
}

impl<'de> Members<'_, 'de> {
    fn set<E: Error>(self, value: Cow<'de, [u8]>) -> Result<(), E> {
        let field = self.field.ok_or_else(|| E::custom("no members"))?;
        self.values.set(field, value);
        Ok(())
    }

    fn set_text<E: Error>(self, value: impl ToString) -> Result<(), E> {
        self.set(Cow::Owned(value.to_string().into_bytes()))
    }
}

impl<'de> DeserializeSeed<'de> for Members<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        self.set(Cow::Borrowed(text.as_bytes()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.set_text(text)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.set_text(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.set_text(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.set_text(number)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.set_text(value)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let has_members = self.field.is_none_or(|(field, _)| field == Field::Request);
        while let Some(field) = map.next_key_seed(Key)? {
            match field.filter(|_| has_members) {
                Some(field) => {
                    let values = &mut *self.values;
                    map.next_value_seed(Members { values, field: Some(field) })?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The reader of a member's name.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<Named>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Named>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<Named>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<Named>, E> {
        Ok(Field::named(name))
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{Measure, SkipReason, hash};
    use super::super::url::Url;
    use super::*;
    use crate::request::Kind;

    const LARDER: &str = r#"{"time":"2026-11-28T03:26:47.123Z","duration_ms":0.5,
        "client":"10.0.0.1","method":"GET","url":"http://h/a.html?v=1","version":"HTTP/1.1",
        "status":200,"bytes_out":400,"body_out":300,"outcome":"HIT_RAM","aborted":false}"#;
    const CADDY: &str = r#"{"level":"info","ts":1795836407.123,"logger":"http.log.access",
        "msg":"handled request","request":{"remote_ip":"10.0.0.1","remote_port":"5",
        "client_ip":"10.0.0.1","proto":"HTTP/2.0","method":"GET","host":"h","uri":"/a.html?v=1",
        "headers":{"Host":["x"],"Url":["y"]}},"bytes_read":0,"user_id":"","duration":0.1,
        "size":300,"status":200,"resp_headers":{"Size":["9"]}}"#;
    const NGINX: &str = r#"{"time_iso8601":"2026-11-28T03:26:47+00:00","msec":"1795836407.123",
        "remote_addr":"10.0.0.1","host":"h","request":"GET /a.html?v=1 HTTP/1.1","status":"200",
        "body_bytes_sent":"300","http_user_agent":"a \"b\""}"#;

    fn event(line: &str) -> Event {
        parse(line.as_bytes(), Filter::Served).unwrap()
    }

    #[test]
    fn lines_of_three_programs_say_the_same() {
        let url = Url::new(b"http://h/a.html?v=1");
        let expected = Event {
            time_ms: 1_795_836_407_123,
            object: hash(b"http://h/a.html?v=1"),
            site: url.site,
            group: url.group,
            client: hash(b"10.0.0.1"),
            size: Some(300),
            measure: Measure::Sent,
            kind: Kind::Html,
            status: 200,
            ..Event::default()
        };
        assert_eq!(event(LARDER), Event { is_hit: true, ..expected });
        assert_eq!(event(CADDY), expected);
        assert_eq!(event(NGINX), expected);
        let parts = r#""request_method":"GET","request_uri":"/a.html?v=1""#;
        let split = NGINX.replace(r#""request":"GET /a.html?v=1 HTTP/1.1""#, parts);
        assert_eq!(event(&split), expected);
    }

    #[test]
    fn outcomes_and_broken_transfers_are_seen() {
        let larder = |from: &str, to: &str| event(&LARDER.replace(from, to));
        assert!(larder("HIT_RAM", "REFRESHED").is_new_version);
        let rule = larder(r#""HIT_RAM""#, r#""BYPASS","reason":"rule""#);
        assert_eq!(rule.skip_reason, Some(SkipReason::Outcome));
        let range = larder(r#""HIT_RAM""#, r#""BYPASS","reason":"range""#);
        assert_eq!(range.skip_reason, None);
        assert_eq!(larder("false", "true").measure, Measure::Part);
        assert_eq!(larder(r#""status":200"#, r#""status":304"#).size, None);
    }

    #[test]
    fn damage_is_named() {
        let what = |from: &str, to: &str| {
            parse(LARDER.replace(from, to).as_bytes(), Filter::Served).unwrap_err()
        };
        assert!(what("}", "").starts_with("not an object in JSON: "), "{}", what("}", ""));
        assert!(parse(b"7", Filter::Served).unwrap_err().contains("no members"));
        assert!(what("url", "u").contains("no URL"));
        assert!(what("body_out", "x").contains("no number of bytes sent"));
        assert!(what("2026", "26").contains("the time"));
        assert!(what(":200", ":\"ok\"").contains("\"ok\" is not a status"));
    }
}
