//! An entry of the `responses` of a rule: conditions on the response of the origin server, and the
//! settings for responses that meet them. Its keys, and their translation for the proxy.

use std::sync::Arc;

use http::HeaderName;
use proxy::message::header_edits::Edits;
use proxy::rules::client_edits::ClientEdits;
use proxy::rules::request_rules::{HeaderTest, ResponseRule, ResponseRules, ResponseTests};
use semantics::{Pattern, Seconds, StatusPattern};

use crate::config::rule_condition::{Wrong, parse_all};
use crate::config::status_times;

/// The key of the entries.
pub const RESPONSES: &str = "responses";

/// Most entries of a rule.
const ENTRIES_MAX: usize = 64;

/// Lists of what a response may have, by kind.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Tests {
    pub statuses: Vec<StatusPattern>,
    pub types: Vec<String>,
    pub headers: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct RuleResponse {
    pub is: Tests,
    pub not: Tests,
    pub larger_than: Option<u64>,
    pub smaller_than: Option<u64>,
    pub ttl: Option<Seconds>,
    pub default_ttl: Option<Seconds>,
    pub store: bool,
    pub answer_set: Vec<String>,
    pub answer_remove: Vec<String>,
    pub answer_ignore: Vec<HeaderName>,
    pub client_set: Vec<String>,
    pub client_remove: Vec<String>,
}

impl RuleResponse {
    /// Returns the entries as the proxy uses them; `None` if there are none.
    pub fn all_to_proxy(entries: &[RuleResponse]) -> Result<Option<Arc<ResponseRules>>, Wrong> {
        if entries.len() > ENTRIES_MAX {
            return Err((RESPONSES, format!("expected at most {ENTRIES_MAX} entries")));
        }
        let made = entries.iter().enumerate().map(|(at, entry)| {
            entry
                .to_proxy()
                .map_err(|(key, why)| (RESPONSES, format!("{key} of {}: {why}", at + 1)))
        });
        Ok(ResponseRules::new(made.collect::<Result<_, _>>()?))
    }

    /// Returns whether the entry edits responses for clients only.
    pub fn edits_for_clients(&self) -> bool {
        !self.client_set.is_empty() || !self.client_remove.is_empty()
    }

    /// Returns the texts that may have variables.
    pub fn texts(&self) -> impl Iterator<Item = &String> {
        self.answer_set.iter().chain(&self.client_set)
    }

    fn to_proxy(&self) -> Result<ResponseRule, Wrong> {
        let client = |set, remove| ClientEdits::new(set, remove, &[] as &[HeaderName]);
        client(&[], &self.client_remove).map_err(|why| ("client-remove", why))?;
        let client =
            client(&self.client_set, &self.client_remove).map_err(|why| ("client-set", why))?;
        let made = ResponseRule {
            is: self.is.to_proxy(["statuses", "types", "headers"])?,
            not: self.not.to_proxy(["not-statuses", "not-types", "not-headers"])?,
            larger_than: self.larger_than,
            smaller_than: self.smaller_than,
            ttl: self.ttl,
            default_ttl: self.default_ttl,
            forbids_storing: !self.store,
            edits: edits("answer-set", &self.answer_set, &self.answer_remove)?,
            ignored: self.answer_ignore.clone(),
            client: Some(Arc::new(client)).filter(|edits| !edits.is_empty()),
        };
        if self.larger_than.zip(self.smaller_than).is_some_and(|(more, less)| more + 1 >= less) {
            return Err(("smaller-than", "expected more than larger-than".to_owned()));
        }
        match made.is_idle() {
            true => {
                let text = "expected something to do: ttl, default-ttl, store = false, \
                            answer-set, answer-remove, answer-ignore, client-set or client-remove";
                Err(("entry", text.to_owned()))
            }
            false => Ok(made),
        }
    }
}

impl Tests {
    fn to_proxy(
        &self,
        [statuses, types, headers]: [&'static str; 3],
    ) -> Result<ResponseTests, Wrong> {
        let misnamed = self.statuses.iter().find_map(|status| status_times::misnamed(*status));
        if let Some(why) = misnamed {
            return Err((statuses, why));
        }
        let odd = self.types.iter().find(|kind| !kind.contains(['/', '*']) || kind.contains(';'));
        if let Some(kind) = odd {
            let text = format!("expected a media type such as text/html or image/*, got {kind:?}");
            return Err((types, text));
        }
        Ok(ResponseTests {
            statuses: self.statuses.clone(),
            types: self.types.iter().map(|kind| Pattern::ignoring_case(kind)).collect(),
            headers: parse_all::<HeaderTest>(headers, &self.headers)?,
        })
    }
}

/// Returns the edits of the key `set` and of the corresponding key for removals.
pub fn edits(set: &'static str, fields: &[String], names: &[String]) -> Result<Edits, Wrong> {
    let remove = if set == "request-set" { "request-remove" } else { "answer-remove" };
    Edits::new(&[], names).map_err(|why| (remove, why))?;
    Edits::new(fields, names).map_err(|why| (set, why))
}
