//! Header fields that an operator sets or removes.
//!
//! Fields that determine where a message ends, how it travels or which request it belongs to are
//! excluded. If rules could change them, a message could mean one thing to this proxy and another
//! to the next hop.

use http::header::{self, HeaderName, HeaderValue};
use semantics::{EditFields, Pattern, UsualNames, hop_by_hop};

use upstream::message::via::CDN_LOOP;

/// Fields that rules must not change, in addition to hop-by-hop fields.
const KEPT: [HeaderName; 12] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    header::RANGE,
    header::IF_RANGE,
    header::EXPECT,
    header::MAX_FORWARDS,
    header::DATE,
    header::AGE,
    header::VIA,
    // A proxy that allows removing it cannot detect loops (RFC 8586, 3).
    CDN_LOOP,
];

/// Edits of the fields of a request or response. Removals are applied first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edits {
    set: Vec<(HeaderName, HeaderValue)>,
    remove: Vec<Pattern>,
    /// The usual names among the removed fields.
    usual: UsualNames,
}

impl Edits {
    /// Parses edits: `Name: value` to set a field, or the name of a field to remove, in which `*`
    /// matches any text. The error is a sentence.
    pub fn new(set: &[String], remove: &[String]) -> Result<Edits, String> {
        let set = set.iter().map(|text| field(text)).collect::<Result<_, String>>()?;
        let remove: Vec<_> =
            remove.iter().map(|text| removal(text)).collect::<Result<_, String>>()?;
        let usual = UsualNames::all_in(|name| is_removed(&remove, name));
        Ok(Edits { set, remove, usual })
    }

    /// Returns the edits that have the effect of these and then of `later`.
    pub fn then(&self, later: &Edits) -> Edits {
        let replaced =
            |name: &HeaderName| later.sets(name) || is_removed(&later.remove, name.as_str());
        let kept = self.set.iter().filter(|(name, _)| !replaced(name));
        let remove = [&self.remove[..], &later.remove].concat();
        Edits {
            set: kept.chain(&later.set).cloned().collect(),
            usual: UsualNames::all_in(|name| is_removed(&remove, name)),
            remove,
        }
    }

    /// Returns whether there are no edits.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }

    /// Removes and sets the fields.
    pub fn apply(&self, fields: &mut impl EditFields) {
        self.remove(fields);
        self.set(fields);
    }

    /// Returns whether the edits set a field of this name.
    pub fn sets(&self, name: &HeaderName) -> bool {
        self.set.iter().any(|(set, _)| set == name)
    }

    /// Applies the removals: the first half of [`Edits::apply`].
    pub fn remove(&self, fields: &mut impl EditFields) {
        if !self.remove.is_empty() {
            fields.remove_in(self.usual, |name| is_removed(&self.remove, name));
        }
    }

    /// Applies the settings: the second half of [`Edits::apply`].
    pub fn set(&self, fields: &mut impl EditFields) {
        for (name, value) in &self.set {
            fields.set_line(name, value);
        }
    }
}

fn is_removed(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name.as_bytes())) && is_free(name)
}

/// Returns whether a rule may change this field.
fn is_free(name: &str) -> bool {
    !KEPT.iter().any(|kept| kept == name) && !hop_by_hop::is_for_one_hop(name)
}

fn protected(name: &HeaderName) -> String {
    format!("{name} is not for rules: it says how a message is read or where it goes")
}

fn field(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) =
        text.split_once(':').ok_or_else(|| format!("expected \"Name: value\", got {text:?}"))?;
    let name: HeaderName =
        name.trim().parse().map_err(|_| format!("{:?} is not the name of a field", name.trim()))?;
    let value = HeaderValue::from_str(value.trim())
        .map_err(|_| format!("{:?} cannot be the value of a field", value.trim()))?;
    if is_free(name.as_str()) { Ok((name, value)) } else { Err(protected(&name)) }
}

fn removal(text: &str) -> Result<Pattern, String> {
    let bare: HeaderName = text
        .replace('*', "x")
        .parse()
        .map_err(|_| format!("expected the name of a field, with * for anything, got {text:?}"))?;
    if !text.contains('*') && !is_free(bare.as_str()) {
        return Err(protected(&bare));
    }
    Ok(Pattern::ignoring_case(text))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn edits(set: &[&str], remove: &[&str]) -> Result<Edits, String> {
        let owned =
            |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Edits::new(&owned(set), &owned(remove))
    }

    #[test]
    fn fields_are_removed_and_set() {
        let mut fields = HeaderMap::new();
        for (name, value) in [("x-a", "1"), ("x-b", "2"), ("cookie", "c"), ("host", "h")] {
            fields.append(name, HeaderValue::from_static(value));
        }
        let edits = edits(&["X-B: 3", "X-C:"], &["X-*", "cookie"]).unwrap();
        edits.apply(&mut fields);
        let mut left: Vec<_> =
            fields.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        left.sort_unstable();
        assert_eq!(left, [("host", "h"), ("x-b", "3"), ("x-c", "")]);
    }

    #[test]
    fn later_edits_come_after_earlier_ones() {
        let first = edits(&["X-A: 1", "X-B: 1"], &["x-c"]).unwrap();
        let second = edits(&["X-B: 2", "X-C: 2"], &["x-a", "x-d"]).unwrap();
        let mut both = HeaderMap::new();
        for name in ["x-a", "x-c", "x-d", "x-e"] {
            both.insert(name, HeaderValue::from_static("0"));
        }
        let mut one_by_one = both.clone();
        first.then(&second).apply(&mut both);
        first.apply(&mut one_by_one);
        second.apply(&mut one_by_one);
        assert_eq!(both, one_by_one);
        assert_eq!(both.len(), 3);
    }

    #[test]
    fn a_star_spares_what_rules_must_not_touch() {
        let mut fields = HeaderMap::new();
        fields.insert("host", HeaderValue::from_static("h"));
        fields.insert("content-length", HeaderValue::from_static("3"));
        fields.insert("content-type", HeaderValue::from_static("t"));
        edits(&[], &["*"]).unwrap().apply(&mut fields);
        assert_eq!(fields.len(), 2);
        assert!(!fields.contains_key("content-type"));
    }

    #[test]
    fn what_cannot_be_edited_is_named() {
        for (set, remove, word) in [
            (&["Content-Length: 3"][..], &[][..], "content-length"),
            (&["Connection: close"], &[], "connection"),
            (&[], &["Transfer-Encoding"], "transfer-encoding"),
            (&["X-A"], &[], "Name: value"),
            (&["X A: b"], &[], "X A"),
            (&["X-A: b\nc"], &[], "value"),
            (&[], &["x a"], "x a"),
        ] {
            let error = edits(set, remove).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
