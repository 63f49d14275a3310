//! The check that a stored answer was keyed by all fields that the rule keys by.

use http::HeaderName;

use crate::object::stored_response::StoredResponse;
use crate::rules::request_rules::Rule;

/// Returns whether the key of a stored answer has all fields in it that the operator's rule keys
/// by: what was stored before there was such a rule may be for any kind of client.
pub(crate) fn is_told_apart(rule: Option<&Rule>, stored: &StoredResponse) -> bool {
    let Some(rule) = rule else { return true };
    let marked = |name: &HeaderName| {
        stored.marker.as_ref().is_some_and(|marker| marker.names().contains(name))
    };
    rule.key_names().all(|name| marked(&name))
}
