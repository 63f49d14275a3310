//! Finds rules whose edits make a stored response depend on the client that asked for it: their
//! values have variables that are not part of the key. Other clients would get that response.

use http::HeaderName;
use proxy::message::header_edits::Edits;
use proxy::message::template::{Stage, Template, Variable};
use proxy::rules::request_rules::LocationRewrite;

use crate::config::configuration::Config;
use crate::config::request_rule::RequestRule;

impl Config {
    /// Returns a sentence for each edit whose value is not determined by the key.
    pub fn unkeyed_edits(&self) -> Vec<String> {
        let trusted = match self.forwarded.trust.is_empty() {
            true => &[],
            false => self.forwarded.trust_fields.key_names(),
        };
        let mut told = Vec::new();
        for (at, rule) in self.rules.iter().enumerate().filter(|(_, rule)| stores(rule)) {
            let called = match &rule.name {
                Some(name) => format!("rule {name:?}"),
                None => format!("rule {}", at + 1),
            };
            let is_keyed = |name: &HeaderName| {
                trusted.contains(name) || rule.key_headers.iter().any(|key| name == key.as_str())
            };
            // A text that names the server sees the key.
            let made = rule.actions.made_texts().filter(|(key, _)| *key != "upstream");
            for (key, text) in made {
                let Ok(template) = Template::parse(text, Stage::Request) else { continue };
                for variable in template.variables() {
                    if !is_determined(variable, rule, &is_keyed) {
                        told.push(format!(
                            "{called}: {key} has {variable}, which is not part of the key: a \
                             stored response would depend on who asked first (use key-headers, \
                             key-cookies or bypass)"
                        ));
                    }
                }
            }
            for text in &rule.location_rewrite {
                let Ok(rewrite) = LocationRewrite::parse(text) else { continue };
                let variables = rewrite.template().into_iter().flat_map(Template::variables);
                for variable in variables.filter(|one| !is_determined(one, rule, &is_keyed)) {
                    told.push(format!(
                        "{called}: location-rewrite has {variable}, which is not part of the key: \
                         a stored response would depend on who asked first (use key-headers, \
                         key-cookies or bypass)"
                    ));
                }
            }
            let of_responses = rule.responses.iter().map(|entry| ("answer-set", &entry.answer_set));
            let of_rule = [("request-set", &rule.request_set), ("answer-set", &rule.answer_set)];
            for (key, texts) in of_rule.into_iter().chain(of_responses) {
                let Ok(edits) = Edits::new(texts, &[]) else { continue };
                // A field of the key may have any value: each value has its own response.
                let is_free = |field: &HeaderName| key == "request-set" && is_keyed(field);
                let unkeyed = edits.variables().filter(|(field, variable)| {
                    !is_free(field) && !is_determined(variable, rule, &is_keyed)
                });
                for (field, variables) in by_field(unkeyed) {
                    told.push(format!(
                        "{called}: {key} sets {field} to {variables}, not part of the key: a \
                         stored response would depend on who asked first (use client-set, \
                         key-headers or bypass)"
                    ));
                }
            }
        }
        told
    }
}

/// Returns the variables of each field as a list. Those of one field are adjacent.
fn by_field<'e>(
    variables: impl Iterator<Item = (&'e HeaderName, &'e Variable)>,
) -> Vec<(&'e HeaderName, String)> {
    let mut lists: Vec<(&HeaderName, String)> = Vec::new();
    for (field, variable) in variables {
        match lists.last_mut().filter(|(last, _)| *last == field) {
            Some((_, list)) => list.push_str(&format!(" and {variable}")),
            None => lists.push((field, variable.to_string())),
        }
    }
    lists
}

/// Returns whether responses may be stored under the rule.
fn stores(rule: &RequestRule) -> bool {
    let methods = &rule.when.is.methods;
    let is_read = methods.is_empty() || methods.iter().any(|name| name == "GET" || name == "HEAD");
    !rule.bypass && !rule.never_stores() && is_read
}

/// Returns whether the key determines the value of a variable.
fn is_determined(
    variable: &Variable,
    rule: &RequestRule,
    is_keyed: &impl Fn(&HeaderName) -> bool,
) -> bool {
    match variable {
        Variable::ClientIp
        | Variable::ClientPort
        | Variable::TlsVersion
        | Variable::RequestId
        | Variable::TraceId
        | Variable::SpanId => false,
        Variable::Cookie(name) => rule.key_cookies.contains(name),
        Variable::Header(name) => is_keyed(name),
        Variable::Path => rule.key_path.is_none(),
        Variable::Capture(_) => {
            rule.key_path.as_ref().is_none_or(|path| path.contains(&variable.to_string()))
        }
        Variable::Uri if rule.key_path.is_some() => false,
        Variable::Query | Variable::Uri | Variable::Parameter(_) => {
            rule.query_keep == ["*"] && rule.query_drop.is_empty()
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use crate::config::file::File;
    use crate::config::layers::Layer;
    use crate::config::loaded::Loaded;

    /// Returns the number of warnings about a rule with these keys.
    fn warnings(keys: &str) -> usize {
        let text = format!("[[rule]]\nname = 'x'\n{keys}\n");
        let file = File::parse("larder.toml", &text).unwrap_or_else(|why| panic!("{why}"));
        let loaded = Loaded::build(&file, &Layer::new()).unwrap_or_else(|why| panic!("{why}"));
        loaded.config.unkeyed_edits().len()
    }

    #[test]
    fn values_outside_the_key_are_told() {
        for (count, keys) in [
            (1, "request-set = ['X-A: {client_ip}']"),
            (2, "answer-set = ['X-A: {cookie.a} {request_id}', 'X-B: {client_ip} {scheme}']"),
            (1, "request-set = ['X-A: {header.x-b}']\nkey-headers = ['x-c']"),
            (1, "answer-set = ['X-A: {uri}']\nquery-drop = ['utm_*']"),
            (0, "request-set = ['X-A: {header.x-b}']\nkey-headers = ['x-b']"),
            (0, "request-set = ['X-A: {header.x-b}']\nkey-headers = ['x-a']"),
            (1, "answer-set = ['X-A: {header.x-b}']\nkey-headers = ['x-a']"),
            (0, "request-set = ['X-A: {client_ip}']\nbypass = true"),
            (0, "request-set = ['X-A: {client_ip}']\nstore = false"),
            (0, "request-set = ['X-A: {client_ip}']\nmethods = ['POST']"),
            (0, "client-set = ['X-A: {client_ip} {outcome}']"),
            (1, "responses = [{ types = ['a/b'], answer-set = ['X-A: {client_ip}'] }]"),
            (0, "responses = [{ types = ['a/b'], client-set = ['X-A: {client_ip}'] }]"),
            (0, "location-rewrite = ['http://a/ https://{host}/']"),
            (1, "location-rewrite = ['http://a/ https://{host}/{cookie.a}/']"),
            (0, "answer-set = ['X-A: {host}{uri} {site} {rule} {capture.1}']"),
        ] {
            assert_eq!(warnings(keys), count, "{keys}");
        }
    }
}
