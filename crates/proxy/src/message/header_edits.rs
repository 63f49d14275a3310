//! Header fields that an operator sets or removes. Values may have variables.
//!
//! Fields that determine where a message ends, how it travels or which request it belongs to are
//! excluded. If rules could change them, a message could mean one thing to this proxy and another
//! to the next hop.

use std::collections::HashSet;

use http::header::{self, HeaderName, HeaderValue};
use semantics::{EditFields, Pattern, UsualNames, hop_by_hop};

use upstream::message::via::CDN_LOOP;

use crate::message::template::{Stage, Template, Values, Variable};

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

/// Fields to set, with their values; a field without a value is removed.
pub(crate) type FilledFields = Vec<(HeaderName, Option<HeaderValue>)>;

/// Edits of the fields of a request or response. Removals are applied first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edits {
    set: Vec<(HeaderName, SetValue)>,
    remove: Vec<Pattern>,
    /// The usual names among the removed fields.
    usual: UsualNames,
}

/// Value of a field that edits set.
#[derive(Clone, Debug, PartialEq)]
enum SetValue {
    Fixed(HeaderValue),
    /// Has variables. A field whose value turns out empty is removed.
    Template(Template),
    /// Turned out empty.
    Absent,
}

impl Edits {
    /// Parses edits: `Name: value` to set a field, or the name of a field to remove, in which `*`
    /// matches any text. Values may have the variables of the request. The error is a sentence.
    pub fn new(set: &[String], remove: &[String]) -> Result<Edits, String> {
        Edits::at(Stage::Request, set, remove)
    }

    /// Parses edits whose values may have the variables that are known at this stage; otherwise
    /// like [`Edits::new`].
    pub fn at(stage: Stage, set: &[String], remove: &[String]) -> Result<Edits, String> {
        let mut set = set.iter().map(|text| field(text, stage)).collect::<Result<Vec<_>, _>>()?;
        // Of several values for a field the last one counts.
        set.reverse();
        let mut seen = HashSet::new();
        set.retain(|(name, _)| seen.insert(name.clone()));
        set.reverse();
        let remove: Vec<_> =
            remove.iter().map(|text| removal(text)).collect::<Result<_, String>>()?;
        let usual = UsualNames::all_in(|name| is_removed(&remove, name.as_bytes()));
        Ok(Edits { set, remove, usual })
    }

    /// Returns whether there are no edits.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }

    /// Returns whether a field of this name is set.
    pub fn sets(&self, name: &HeaderName) -> bool {
        self.set.iter().any(|(set, _)| set == name)
    }

    /// Removes and sets the fields.
    pub fn apply(&self, fields: &mut impl EditFields) {
        self.remove(fields);
        self.set(fields);
    }

    /// Returns whether the edits set a field of this name to a value without variables.
    pub fn sets_fixed(&self, name: &HeaderName) -> bool {
        let is_fixed = |value: &SetValue| matches!(value, SetValue::Fixed(_));
        self.set.iter().any(|(set, value)| set == name && is_fixed(value))
    }

    /// Applies the removals: the first half of [`Edits::apply`].
    pub fn remove(&self, fields: &mut impl EditFields) {
        if !self.remove.is_empty() {
            fields.remove_in(self.usual, |name| is_removed(&self.remove, name.as_bytes()));
        }
    }

    /// Applies the settings: the second half of [`Edits::apply`]. Values with variables are skipped
    /// (`Edits::fill`).
    pub fn set(&self, fields: &mut impl EditFields) {
        for (name, value) in &self.set {
            match value {
                SetValue::Fixed(value) => fields.set_line(name, value),
                SetValue::Absent => _ = fields.remove_lines(name),
                SetValue::Template(_) => {}
            }
        }
    }

    /// Returns the variables in the values.
    pub fn variables(&self) -> impl Iterator<Item = (&HeaderName, &Variable)> {
        self.set.iter().flat_map(|(name, value)| {
            let template = match value {
                SetValue::Template(template) => Some(template),
                SetValue::Fixed(_) | SetValue::Absent => None,
            };
            template.into_iter().flat_map(move |of| of.variables().map(move |one| (name, one)))
        })
    }

    /// Returns whether a value has variables.
    pub(crate) fn has_variables(&self) -> bool {
        self.set.iter().any(|(_, value)| matches!(value, SetValue::Template(_)))
    }

    /// Returns the edits with the values of their variables; `None` if there are no variables.
    pub(crate) fn fill(&self, values: &impl Values) -> Option<Edits> {
        self.has_variables().then(|| {
            let filled = self.variable_fields(values);
            let set = self.set_fields(&filled).map(|(name, value)| {
                (name.clone(), value.cloned().map_or(SetValue::Absent, SetValue::Fixed))
            });
            Edits { set: set.collect(), remove: self.remove.clone(), usual: self.usual }
        })
    }

    /// Returns the fields whose values have variables, with their values.
    pub(crate) fn variable_fields(&self, values: &impl Values) -> FilledFields {
        let filled = |(name, value): &(HeaderName, SetValue)| match value {
            SetValue::Template(template) => Some((name.clone(), template.field_value(values))),
            SetValue::Fixed(_) | SetValue::Absent => None,
        };
        self.set.iter().filter_map(filled).collect()
    }

    /// Returns the fields to set with their values. `filled` holds those whose values have
    /// variables ([`Edits::variable_fields`]).
    pub(crate) fn set_fields<'a>(
        &'a self,
        filled: &'a FilledFields,
    ) -> impl Iterator<Item = (&'a HeaderName, Option<&'a HeaderValue>)> {
        let mut filled = filled.iter();
        self.set.iter().map(move |(name, value)| match value {
            SetValue::Fixed(value) => (name, Some(value)),
            SetValue::Template(_) => (name, filled.next().and_then(|(_, value)| value.as_ref())),
            SetValue::Absent => (name, None),
        })
    }

    /// Returns whether the edits remove a field of this name, in any case.
    pub(crate) fn removes(&self, name: &[u8]) -> bool {
        is_removed(&self.remove, name)
    }

    /// Returns edits that do the same as these and then `later`.
    pub fn then(&self, later: &Edits) -> Edits {
        let is_set_later = |name: &HeaderName| later.set.iter().any(|(set, _)| set == name);
        let is_kept = |(name, _): &&(HeaderName, SetValue)| {
            !later.removes(name.as_str().as_bytes()) && !is_set_later(name)
        };
        let set = self.set.iter().filter(is_kept).chain(&later.set).cloned().collect();
        let remove: Vec<_> = self.remove.iter().chain(&later.remove).cloned().collect();
        let usual = UsualNames::all_in(|name| is_removed(&remove, name.as_bytes()));
        Edits { set, remove, usual }
    }
}

/// Sets these fields, and removes those without a value.
pub(crate) fn set_filled<'a>(
    filled: impl IntoIterator<Item = (&'a HeaderName, Option<&'a HeaderValue>)>,
    fields: &mut impl EditFields,
) {
    for (name, value) in filled {
        match value {
            Some(value) => fields.set_line(name, value),
            None => _ = fields.remove_lines(name),
        }
    }
}

fn is_removed(patterns: &[Pattern], name: &[u8]) -> bool {
    let is_named = patterns.iter().any(|pattern| pattern.matches(name));
    is_named && std::str::from_utf8(name).is_ok_and(is_free)
}

/// Returns whether a rule may change this field.
fn is_free(name: &str) -> bool {
    !KEPT.iter().any(|kept| kept == name) && !hop_by_hop::is_for_one_hop(name)
}

fn protected(name: &HeaderName) -> String {
    format!("{name} is not for rules: it says how a message is read or where it goes")
}

fn field(text: &str, stage: Stage) -> Result<(HeaderName, SetValue), String> {
    let (name, value) =
        text.split_once(':').ok_or_else(|| format!("expected \"Name: value\", got {text:?}"))?;
    let name: HeaderName =
        name.trim().parse().map_err(|_| format!("{:?} is not the name of a field", name.trim()))?;
    let template = Template::parse(value.trim(), stage).map_err(|why| format!("{name}: {why}"))?;
    let parse = |text: &str| {
        HeaderValue::from_str(text)
            .map_err(|_| format!("{:?} cannot be the value of a field", value.trim()))
    };
    template.texts().try_for_each(|text| parse(text).map(drop))?;
    let value = match template.fixed() {
        Some(text) => SetValue::Fixed(parse(text)?),
        None => SetValue::Template(template),
    };
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

    /// Gives every variable this value.
    struct Same(&'static str);

    impl Values for Same {
        fn write(&self, _variable: &Variable, out: &mut Vec<u8>) {
            out.extend_from_slice(self.0.as_bytes());
        }
    }

    #[test]
    fn a_field_with_an_empty_variable_is_removed() {
        let edits = edits(&["X-A: {cookie.a}", "X-B:", "X-C: {uri}!"], &[]).unwrap();
        let mut fields = HeaderMap::new();
        fields.insert("x-a", HeaderValue::from_static("of the client"));
        edits.set(&mut fields);
        assert_eq!(fields.len(), 2);
        edits.fill(&Same("")).unwrap().apply(&mut fields);
        assert!(!fields.contains_key("x-a") && fields["x-b"].is_empty() && fields["x-c"] == "!");
        edits.fill(&Same("v")).unwrap().apply(&mut fields);
        assert!(fields["x-a"] == "v" && fields["x-c"] == "v!");
    }

    #[test]
    fn merged_edits_do_the_same_as_both_in_order() {
        let all = [
            edits(&["X-A: 1", "X-B: 1"], &["X-C*"]),
            edits(&["X-B: 2", "X-Cd: 2"], &["X-A"]),
            edits(&["X-A: 3"], &["X-*"]),
        ];
        let all = all.map(Result::unwrap);
        let begin: HeaderMap = ["x-a", "x-cc", "y"]
            .into_iter()
            .map(|name| (HeaderName::from_static(name), HeaderValue::from_static("0")))
            .collect();
        for (one, other) in [(0, 1), (1, 0), (0, 2), (2, 1), (2, 0)] {
            let (mut merged, mut both) = (begin.clone(), begin.clone());
            all[one].then(&all[other]).apply(&mut merged);
            all[one].apply(&mut both);
            all[other].apply(&mut both);
            assert_eq!(merged, both, "{one} {other}");
        }
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
            (&["X-A: {uri}\n{uri}"], &[], "value"),
            (&["X-A: {status}"], &[], "x-a: {status} is not known yet"),
            (&[], &["x a"], "x a"),
        ] {
            let error = edits(set, remove).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
