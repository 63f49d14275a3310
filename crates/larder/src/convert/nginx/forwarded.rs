//! Fields by which a proxy in front states client, scheme and host. Larder removes them from
//! requests of others, before it looks at rules.

use semantics::claims::is_claim;

use crate::convert::nginx::syntax::Directive;
use crate::convert::output::Output;

/// Why a test of such a field is lost.
pub const REASON: &str = "counts from proxies in forwarded.trust only, as far as \
                          forwarded.trust-fields has the field";

/// Fields that trusted proxies may send by default.
const TRUSTED: [&str; 2] = ["x-forwarded-for", "x-forwarded-proto"];

/// Directives that log, or set what Larder sets by itself (`forwarded.add`).
const UNCOUNTED: [&str; 2] = ["log_format", "access_log"];

/// Returns whether a variable is the scheme that a proxy in front states.
pub fn is_scheme(variable: &str) -> bool {
    variable == "http_x_forwarded_proto"
}

/// Returns whether the value of a variable is removed unless a trusted proxy sends it.
pub fn is_removed(variable: &str) -> bool {
    let field = variable.strip_prefix("http_");
    field.is_some_and(|field| is_claim(&field.replace('_', "-")))
}

/// Returns whether a text with Larder's variables has a field that is removed so.
pub fn has_removed(text: &str) -> bool {
    let fields = text.split("{header.").skip(1).filter_map(|rest| rest.split('}').next());
    fields.into_iter().any(is_claim)
}

/// Reports the variables of such fields, each once in a file.
pub fn account(all: &[&Directive], out: &mut Output) {
    let is_known = out.get("forwarded.trust").is_some();
    for one in all.iter().filter(|one| !UNCOUNTED.contains(&one.name.as_str())) {
        let all = one.args.iter().flat_map(|arg| variables(arg));
        for variable in all.filter(|name| is_removed(name)) {
            let field = variable.trim_start_matches("http_").replace('_', "-");
            let is_trusted = is_known && TRUSTED.contains(&field.as_str());
            if !is_trusted && !is_own(one, &field) {
                out.lose_once(&one.at, &format!("${variable}"), REASON);
            }
        }
    }
}

/// Returns whether Larder sends the field by itself.
fn is_own(one: &Directive, field: &str) -> bool {
    one.name == "proxy_set_header"
        && TRUSTED.contains(&field)
        && one.arg(0).eq_ignore_ascii_case(field)
}

fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).map(|rest| {
        let rest = rest.trim_start_matches('{');
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_fields_that_proxies_set_are_known() {
        for name in ["http_x_real_ip", "http_cf_connecting_ip", "http_x_forwarded_proto"] {
            assert!(is_removed(name), "{name}");
        }
        assert!(!is_removed("http_x_api_key") && !is_removed("x_real_ip"));
        assert!(has_removed("{header.accept}{header.x-forwarded-for}"));
        assert!(!has_removed("{header.accept}x-forwarded-for"));
        assert_eq!(variables("a$b${c}d$e/f").collect::<Vec<_>>(), ["b", "c", "e"]);
    }
}
