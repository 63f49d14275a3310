//! Entries of a rule for some of its responses: conditions on the origin's response, and what
//! happens to those that meet them.
//!
//! A response is decided on once, when it arrives from the origin, before any edit. The decision
//! travels with it in the field [`DECISION`]: the store keeps it, other nodes of a fleet get it,
//! and a 304 renews it. Clients never get the field, and origins cannot set it. Everything that a
//! decision depends on is in the response, so the key is not affected.

use std::sync::Arc;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use semantics::settings::lifetimes::{StatusScope, counted_as};
use semantics::{Lifetime, Pattern, Seconds, Settings, StatusPattern};

use crate::message::header_edits::Edits;
use crate::message::template::Values;
use crate::rules::client_edits::ClientEdits;
use crate::rules::request_rules::condition::HeaderTest;
use crate::rules::request_rules::rule::{AnswerEdits, Rule, digest_of};

/// Field of stored responses with the numbers of the entries that apply, behind a digest of all
/// entries. Its name is as long as [`semantics::compressed::BODY_ID`], which makes it cheap to
/// leave both out of a response.
pub(crate) const DECISION: HeaderName = HeaderName::from_static("larder-rule");

/// Every status that an entry may be for.
const CLASSES: [StatusPattern; 4] = [
    StatusPattern::Class(2),
    StatusPattern::Class(3),
    StatusPattern::Class(4),
    StatusPattern::Class(5),
];

/// Lists of what a response may have, by kind.
#[derive(Clone, Debug, Default)]
pub struct ResponseTests {
    /// Statuses; 206 and 304 count as 200.
    pub statuses: Vec<StatusPattern>,
    /// Media types without parameters.
    pub types: Vec<Pattern>,
    /// Tests of fields.
    pub headers: Vec<HeaderTest>,
}

/// An entry: conditions on a response, and what happens to responses that meet all of them.
#[derive(Clone, Debug, Default)]
pub struct ResponseRule {
    /// Every list that is not empty must have an entry that matches; of the field tests all must.
    pub is: ResponseTests,
    /// No entry of these lists may match.
    pub not: ResponseTests,
    /// The whole body must have more bytes.
    pub larger_than: Option<u64>,
    /// The whole body must have fewer bytes.
    pub smaller_than: Option<u64>,
    /// Lifetime in place of the origin's.
    pub ttl: Option<Seconds>,
    /// Lifetime if the origin states none.
    pub default_ttl: Option<Seconds>,
    /// True if the response is not stored.
    pub forbids_storing: bool,
    /// Edits of the response before it is judged and stored.
    pub edits: Edits,
    /// Fields that are ignored when it is judged.
    pub ignored: Vec<HeaderName>,
    /// Edits for clients only; `None` if there are none.
    pub client: Option<Arc<ClientEdits>>,
}

/// The entries of a rule, in order. All that match apply.
#[derive(Clone, Debug)]
pub struct ResponseRules {
    list: Vec<ResponseRule>,
    /// Tells these entries from those of other rules, and of this rule before a reload.
    digest: String,
}

/// Result of comparing an entry's conditions with a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    No,
    Yes,
    /// It does as soon as the body turns out to have more bytes than `larger_than`.
    IfLarger,
}

/// The entries that apply to a response, by number.
#[derive(Debug, Default, PartialEq, Eq)]
struct Decision(Vec<(usize, Match)>);

impl ResponseRules {
    /// Creates the entries of a rule; `None` if there are none.
    pub fn new(list: Vec<ResponseRule>) -> Option<Arc<ResponseRules>> {
        let digest = digest_of(format!("{list:?}").as_bytes());
        let digest = digest.to_str().ok().and_then(|hex| hex.get(..8)).unwrap_or_default().into();
        (!list.is_empty()).then(|| Arc::new(ResponseRules { list, digest }))
    }

    /// Returns a digest of what the entries state.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns these entries followed by those of a later rule.
    pub(super) fn then(&self, later: &ResponseRules) -> Option<Arc<ResponseRules>> {
        ResponseRules::new([&self.list[..], &later.list].concat())
    }

    /// Returns the entries with the values of the variables in their edits; `None` if they have no
    /// variables.
    pub(crate) fn fill(&self, values: &impl Values) -> Option<Arc<ResponseRules>> {
        let has_variables = self.list.iter().any(|rule| rule.edits.has_variables());
        has_variables.then(|| {
            let filled = self.list.iter().map(|rule| match rule.edits.fill(values) {
                Some(edits) => ResponseRule { edits, ..rule.clone() },
                None => rule.clone(),
            });
            Arc::new(ResponseRules { list: filled.collect(), digest: self.digest.clone() })
        })
    }

    /// Returns the value of [`DECISION`] for a response of the origin with these fields, before any
    /// edit. `confirmed` has the fields of the stored response that a 304 confirms.
    pub(super) fn decide(
        &self,
        status: StatusCode,
        fields: &HeaderMap,
        confirmed: Option<&HeaderMap>,
    ) -> HeaderValue {
        let merged = confirmed.map(|confirmed| updated(confirmed, fields));
        let earlier = confirmed.and_then(|confirmed| self.read(confirmed));
        let matches = self.list.iter().enumerate().map(|(number, rule)| {
            // The stored fields are edited ones: what forbade storing does so still, unless a 304
            // states everything that the entry looks at.
            let is_told = match rule.forbids_storing {
                true => rule.names().all(|name| fields.contains_key(name)),
                false => rule.names().any(|name| fields.contains_key(name)),
            };
            let matched = match earlier.as_ref().filter(|_| !is_told) {
                Some(Decision(earlier)) => {
                    let found = earlier.iter().find(|(known, _)| *known == number);
                    found.map_or(Match::No, |(_, matched)| *matched)
                }
                None => rule.matches(status, merged.as_ref().unwrap_or(fields)),
            };
            (number, matched)
        });
        let mut text = format!("{}:", self.digest);
        for (number, matched) in matches.filter(|(_, matched)| *matched != Match::No) {
            let sign = if matched == Match::IfLarger { "?" } else { "" };
            text.push_str(&format!(" {number}{sign}"));
        }
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
    }

    /// Reads the decision in the fields of a response; `None` if other entries decided.
    fn read(&self, fields: &HeaderMap) -> Option<Decision> {
        self.parse(fields.get(DECISION)?.as_bytes())
    }

    fn parse(&self, value: &[u8]) -> Option<Decision> {
        let (digest, numbers) = std::str::from_utf8(value).ok()?.split_once(':')?;
        if digest != self.digest {
            return None;
        }
        let read = |word: &str| match word.strip_suffix('?') {
            Some(number) => Some((number.parse().ok()?, Match::IfLarger)),
            None => Some((word.parse().ok()?, Match::Yes)),
        };
        numbers.split_whitespace().map(read).collect::<Option<_>>().map(Decision)
    }

    fn applying(&self, decision: &Decision) -> impl Iterator<Item = (&ResponseRule, Match)> {
        let rule = |(number, matched): &(usize, Match)| Some((self.list.get(*number)?, *matched));
        decision.0.iter().filter_map(rule)
    }

    /// Returns whether an entry has edits for clients.
    pub(crate) fn edit_for_clients(&self) -> bool {
        self.list.iter().any(|rule| rule.client.is_some())
    }

    /// Returns the edits for clients of a response with this decision, after `general`.
    pub(crate) fn client_edits(
        &self,
        decision: &[u8],
        general: Option<&Arc<ClientEdits>>,
    ) -> Option<Arc<ClientEdits>> {
        let decision = self.parse(decision)?;
        let edits = self.applying(&decision).filter_map(|(rule, _)| rule.client.as_ref());
        edits.fold(general.cloned(), |before, edits| match before {
            Some(before) => Some(Arc::new(before.then(edits))),
            None => Some(edits.clone()),
        })
    }

    /// Returns the numbers, from 1, of the entries that apply to a response with these fields.
    pub(crate) fn numbers(&self, fields: &HeaderMap) -> Vec<usize> {
        let decision = self.read(fields).unwrap_or_default();
        let numbers = decision.0.into_iter().filter(|(_, matched)| *matched == Match::Yes);
        numbers.map(|(number, _)| number + 1).collect()
    }
}

impl ResponseRule {
    /// Returns whether the entry does nothing.
    pub fn is_idle(&self) -> bool {
        let judges = self.ttl.is_some()
            || self.default_ttl.is_some()
            || self.forbids_storing
            || !self.ignored.is_empty();
        !judges && self.edits.is_empty() && self.client.is_none()
    }

    /// Returns the names of the fields that the conditions look at.
    fn names(&self) -> impl Iterator<Item = &HeaderName> {
        let tests = [&self.is, &self.not];
        let has_types = tests.iter().any(|tests| !tests.types.is_empty());
        let kind = has_types.then_some(&header::CONTENT_TYPE);
        kind.into_iter().chain(tests.into_iter().flat_map(|tests| &tests.headers).map(|t| &t.name))
    }

    fn matches(&self, status: StatusCode, fields: &HeaderMap) -> Match {
        let kind = media_type(fields);
        if !self.is.hold(status, kind, fields) || self.not.meet(status, kind, fields) {
            return Match::No;
        }
        match (whole_size(fields), self.larger_than, self.smaller_than) {
            (_, None, None) => Match::Yes,
            (Some(size), larger, smaller) => {
                let fits = larger.is_none_or(|bound| size > bound)
                    && smaller.is_none_or(|bound| size < bound);
                if fits { Match::Yes } else { Match::No }
            }
            (None, Some(_), None) => Match::IfLarger,
            (None, ..) => Match::No,
        }
    }

    /// Adds what the entry does to the settings and edits of `rule`, for a response with `status`.
    fn add_to(&self, rule: &mut Rule, matched: Match, status: StatusCode) {
        if matched == Match::IfLarger {
            if self.forbids_storing {
                rule.store_max = [rule.store_max, self.larger_than].into_iter().flatten().min();
            }
            return;
        }
        rule.ignored.extend(self.ignored.iter().cloned());
        let Settings { lifetimes, store, .. } = &mut rule.settings;
        *store &= !self.forbids_storing;
        // Without statuses of its own, the entry's lifetimes are for those of the rule.
        let lifetime = |time| match self.is.statuses.is_empty() {
            true => Lifetime::Same(time),
            false => Lifetime::ByStatus(CLASSES.map(|class| (class, time)).to_vec()),
        };
        let is_theirs =
            !self.is.statuses.is_empty() || lifetimes.scope_of(status) != StatusScope::Nothing;
        if is_theirs {
            lifetimes.fixed = self.ttl.map(lifetime).or(lifetimes.fixed.take());
            lifetimes.unsaid = self.default_ttl.map(lifetime).or(lifetimes.unsaid.take());
        }
        if !self.edits.is_empty() {
            let statuses = Some(vec![StatusPattern::Status(counted_as(status))]);
            rule.answer.push(AnswerEdits { statuses, edits: self.edits.clone() });
        }
    }
}

impl ResponseTests {
    fn hold(&self, status: StatusCode, kind: &[u8], fields: &HeaderMap) -> bool {
        (self.statuses.is_empty() || self.is_status(status))
            && (self.types.is_empty() || self.is_type(kind))
            && self.headers.iter().all(|test| test.holds(fields))
    }

    fn meet(&self, status: StatusCode, kind: &[u8], fields: &HeaderMap) -> bool {
        self.is_status(status)
            || self.is_type(kind)
            || self.headers.iter().any(|test| test.holds(fields))
    }

    fn is_status(&self, status: StatusCode) -> bool {
        self.statuses.iter().any(|pattern| pattern.matches(counted_as(status)))
    }

    fn is_type(&self, kind: &[u8]) -> bool {
        self.types.iter().any(|pattern| pattern.matches(kind))
    }
}

impl Rule {
    /// Returns the rule for a response with these fields, which have a decision: with the settings
    /// and edits of the entries that apply. `None` if none does.
    pub(crate) fn decided(&self, status: StatusCode, fields: &HeaderMap) -> Option<Rule> {
        let responses = self.responses.as_ref()?;
        let decision = responses.read(fields).filter(|Decision(list)| !list.is_empty())?;
        let mut made = self.clone();
        for (entry, matched) in responses.applying(&decision) {
            entry.add_to(&mut made, matched, status);
        }
        Some(made)
    }
}

/// Returns the media type of a response without parameters; empty if there is none.
pub(super) fn media_type(fields: &HeaderMap) -> &[u8] {
    let line = fields.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

/// Returns the size in bytes of the whole body, as far as the fields state it.
fn whole_size(fields: &HeaderMap) -> Option<u64> {
    let text = |name| fields.get(name)?.to_str().ok();
    match text(header::CONTENT_RANGE) {
        Some(range) => range.rsplit_once('/')?.1.trim().parse().ok(),
        None => text(header::CONTENT_LENGTH)?.trim().parse().ok(),
    }
}

/// Returns the fields of a stored response updated by those of a 304, which has no size.
fn updated(stored: &HeaderMap, fields: &HeaderMap) -> HeaderMap {
    let mut merged = stored.clone();
    let is_kept =
        |name: &HeaderName| [header::CONTENT_LENGTH, header::CONTENT_RANGE].contains(name);
    for name in fields.keys().filter(|name| !is_kept(name)) {
        replace(&mut merged, name, fields);
    }
    merged
}

fn replace(merged: &mut HeaderMap, name: &HeaderName, fields: &HeaderMap) {
    merged.remove(name);
    for value in fields.get_all(name) {
        merged.append(name, value.clone());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use semantics::Time;

    use super::*;
    use crate::rules::request_rules::rule::Settled;

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        lines.iter().map(line).collect()
    }

    fn rule(list: Vec<ResponseRule>) -> Rule {
        let responses = ResponseRules::new(list);
        Rule { responses, ..Rule::new("r".to_owned(), Settings::default()) }
    }

    /// Returns the numbers of the entries that apply.
    fn numbers(rule: &Rule, status: u16, lines: &[(&'static str, &'static str)]) -> String {
        let mut fields = fields(lines);
        let status = StatusCode::from_u16(status).unwrap();
        let of = Settled { status, confirms: StatusCode::OK, confirmed: None };
        rule.settle("/", of, &mut fields, Time::from_unix(0));
        let line = fields[DECISION].to_str().unwrap().to_owned();
        line.split_once(':').unwrap().1.trim().to_owned()
    }

    fn tests(statuses: &[&str], types: &[&str], headers: &[&str]) -> ResponseTests {
        ResponseTests {
            statuses: statuses.iter().map(|text| text.parse().unwrap()).collect(),
            types: types.iter().map(|text| Pattern::ignoring_case(text)).collect(),
            headers: headers.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    fn store_false(is: ResponseTests) -> ResponseRule {
        ResponseRule { is, forbids_storing: true, ..ResponseRule::default() }
    }

    #[test]
    fn entries_apply_to_responses_that_meet_all_their_conditions() {
        let all = rule(vec![
            store_false(tests(&["2xx", "404"], &["image/*", "text/css"], &["X-A", "!X-B: 1"])),
            ResponseRule {
                not: tests(&["5xx"], &["image/*"], &["X-A"]),
                ..store_false(ResponseTests::default())
            },
            ResponseRule { larger_than: Some(10), ..store_false(tests(&[], &[], &[])) },
            ResponseRule { smaller_than: Some(10), ..store_false(tests(&[], &[], &[])) },
        ]);
        let image = ("content-type", "image/png; q=1");
        for (status, lines, expected) in [
            (200, &[image, ("x-a", "0")][..], "0 2?"),
            (206, &[image, ("x-a", "0"), ("content-range", "bytes 0-1/99")], "0 2"),
            (404, &[image, ("x-a", "0"), ("x-b", "1"), ("content-length", "9")], "3"),
            (410, &[image, ("x-a", "0"), ("content-length", "10")], ""),
            (500, &[("content-length", "11")], "2"),
            (200, &[("content-type", "text/csss")], "1 2?"),
            (200, &[("content-length", "0")], "1 3"),
        ] {
            assert_eq!(numbers(&all, status, lines), expected, "{status} {lines:?}");
        }
    }

    #[test]
    fn a_304_is_decided_on_with_the_response_that_it_confirms() {
        let removes = Edits::new(&[], &["X-A".to_owned()]).unwrap();
        let rule = rule(vec![
            ResponseRule { edits: removes, ..store_false(tests(&[], &[], &["X-A"])) },
            store_false(tests(&[], &["image/*"], &[])),
        ]);
        let mut stored = fields(&[("content-type", "image/png"), ("x-a", "1")]);
        let whole = Settled { status: StatusCode::OK, confirms: StatusCode::OK, confirmed: None };
        rule.settle("/", whole, &mut stored, Time::from_unix(0));
        assert!(!stored.contains_key("x-a"));
        let after = |lines: &[(&'static str, &'static str)], confirmed: Option<&HeaderMap>| {
            let of = Settled { status: StatusCode::NOT_MODIFIED, confirmed, ..whole };
            let mut fields = fields(lines);
            rule.settle("/", of, &mut fields, Time::from_unix(0));
            let line = fields.get(DECISION)?.to_str().unwrap().to_owned();
            Some(line.split_once(':').unwrap().1.trim().to_owned())
        };
        let text = ("content-type", "text/plain");
        assert_eq!(after(&[], Some(&stored)).unwrap(), "0 1", "it says nothing new");
        assert_eq!(after(&[text], Some(&stored)).unwrap(), "0");
        assert_eq!(after(&[("x-a", "2"), text], Some(&stored)).unwrap(), "0");
        assert_eq!(after(&[text], None), None, "what it is about is not known");
        // Other entries decided on the stored response.
        stored.insert(DECISION, HeaderValue::from_static("00000000: 0"));
        assert_eq!(after(&[], Some(&stored)).unwrap(), "1");
    }

    #[test]
    fn settings_follow_the_decision() {
        let ttl = |statuses: &[&str], seconds| ResponseRule {
            is: tests(statuses, &[], &["X-A"]),
            ttl: Some(Seconds::new(seconds)),
            ..ResponseRule::default()
        };
        let rule = rule(vec![
            ttl(&[], 1),
            ttl(&["404"], 2),
            ResponseRule { larger_than: Some(10), ..store_false(tests(&[], &[], &["X-B"])) },
        ]);
        let decided = |status: u16, lines: &[(&'static str, &'static str)]| {
            let (status, mut fields) = (StatusCode::from_u16(status).unwrap(), fields(lines));
            let of = Settled { status, confirms: status, confirmed: None };
            rule.settle("/", of, &mut fields, Time::from_unix(0));
            rule.decided(status, &fields)
        };
        let fixed =
            |status, lines| decided(status, lines).and_then(|rule| rule.settings.lifetimes.fixed);
        assert_eq!(fixed(200, &[("x-a", "")]), Some(Lifetime::Same(Seconds::new(1))));
        assert_eq!(fixed(500, &[("x-a", "")]), None, "an error keeps its lifetime");
        let of_404 = Lifetime::ByStatus(CLASSES.map(|class| (class, Seconds::new(2))).to_vec());
        assert_eq!(fixed(404, &[("x-a", "")]), Some(of_404));
        assert!(decided(200, &[]).is_none());
        let unknown = decided(200, &[("x-b", "")]).unwrap();
        assert_eq!((unknown.settings.store, unknown.store_max), (true, Some(10)));
        let large = decided(200, &[("x-b", ""), ("content-length", "11")]).unwrap();
        assert_eq!((large.settings.store, large.store_max), (false, None));
    }

    #[test]
    fn the_fields_are_as_long_as_that_of_body_numbers() {
        let length = semantics::compressed::BODY_ID.as_str().len();
        for name in [DECISION, semantics::ignored_fields::IGNORED] {
            assert_eq!(name.as_str().len(), length);
        }
    }
}
