//! Checks that a stored response is keyed by every field that the rule keys by.

use crate::rules::request_rules::Rule;

/// Returns whether the key of a stored response includes every field that the operator's rule keys
/// by. A response stored before the rule existed may be for any kind of client. `selects` returns
/// whether the key includes the field of that name.
pub(crate) fn is_keyed_by_rule(rule: Option<&Rule>, selects: impl Fn(&str) -> bool) -> bool {
    rule.is_none_or(|rule| rule.key_names().all(|name| selects(name.as_str())))
}
