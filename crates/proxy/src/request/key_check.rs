//! The check that a stored response was keyed by all fields that the rule keys by.

use crate::rules::request_rules::Rule;

/// Returns whether the key of a stored response has all fields in it that the operator's rule keys
/// by: what was stored before there was such a rule may be for any kind of client. `selects`:
/// whether a field of this name is in the key.
pub(crate) fn is_told_apart(rule: Option<&Rule>, selects: impl Fn(&str) -> bool) -> bool {
    rule.is_none_or(|rule| rule.key_names().all(|name| selects(name.as_str())))
}
