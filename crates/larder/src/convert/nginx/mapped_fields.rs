//! Fields of responses that a `map` makes of one of the request, as of `$http_origin` for CORS.

use crate::convert::cases::both;
use crate::convert::nginx::condition::{self, Variables};
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::Directive;
use crate::convert::output::{Output, list};
use crate::convert::rule_draft::{RuleDraft, Tests};

/// Returns the requests for which a `map` has a value other than the empty one.
pub fn not_empty(map: &Directive, variables: &Variables) -> Result<Vec<Tests>, String> {
    let mut truth = map.clone();
    for entry in truth.block.iter_mut().flatten() {
        entry.args.iter_mut().filter(|arg| !arg.is_empty()).for_each(|arg| *arg = "1".to_owned());
    }
    let found = condition::of_map(&truth, variables)?;
    found.wider.map_or(Ok(found.any), Err)
}

/// Pushes a rule for a field whose value is that of the request where a `map` has it. Returns false
/// if it is none.
pub fn write(
    field: &Directive,
    scope: &Scope<'_>,
    statuses: &[&str],
    rule: &RuleDraft,
    out: &mut Output,
) -> bool {
    let Some(map) = scope.maps().find(|map| map.arg(1) == field.arg(1)) else { return false };
    let source = map.arg(0);
    let is_own = |one: &Directive| one.arg(0).is_empty() || one.arg(0) == source;
    let value = scope.template(source, "").filter(|_| map.inner().iter().all(is_own));
    let any = not_empty(map, &Variables::new()).and_then(|any| match rule.any.is_empty() {
        true => Ok(any),
        false => both(&rule.any, &any),
    });
    let (Some(value), Ok(any)) = (value, any) else { return false };
    let mut own = RuleDraft::new(&format!("{} {}", rule.name, field.arg(0)), &rule.when);
    own.any = any;
    own.continues = true;
    let value = format!("{}: {value}", field.arg(0));
    match field.arg(2) == "always" {
        true => own.add("client-set", value),
        false => own.client_set_if(&format!("statuses = {}", list(statuses)), &value),
    }
    own.push(out);
    true
}
