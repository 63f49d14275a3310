//! Values with nginx's variables as values with Larder's.

use crate::convert::output::HOSTNAME;

/// Returns a text with the variables of requests; `None` if one has no equivalent.
pub fn template(text: &str, server_name: &str) -> Option<String> {
    template_with(text, server_name, &|_| None)
}

/// Returns a text with the variables of requests, first those that `own` knows; `None` if one has
/// no equivalent.
pub fn template_with(
    text: &str,
    server_name: &str,
    own: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    let joined = text
        .replace("$uri$is_args$args", "$request_uri")
        .replace("$uri$is_args$query_string", "$request_uri");
    let mut out = String::new();
    let mut rest = joined.as_str();
    while let Some(at) = rest.find('$') {
        out.push_str(&braced(&rest[..at]));
        rest = &rest[at + 1..];
        let name_end = |text: &str| {
            text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
        };
        let name = match rest.strip_prefix('{') {
            Some(inner) => {
                let (name, after) = inner.split_once('}')?;
                rest = after;
                name
            }
            None => {
                let end = match rest.starts_with(|c: char| c.is_ascii_digit()) {
                    true => 1,
                    false => name_end(rest),
                };
                let name = &rest[..end];
                rest = &rest[end..];
                name
            }
        };
        out.push_str(&own(name).or_else(|| variable(name, server_name))?);
    }
    out.push_str(&braced(rest));
    Some(out)
}

/// Doubles the braces of a text.
pub fn braced(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

fn variable(name: &str, server_name: &str) -> Option<String> {
    let plain = match name {
        "host" | "http_host" => "{host}",
        "request_uri" => "{uri}",
        "uri" | "document_uri" => "{path}",
        "args" | "query_string" => "{query}",
        // Of proxies in `forwarded.trust` the scheme is what this field says.
        "scheme" | "http_x_forwarded_proto" => "{scheme}",
        "remote_addr" => "{client_ip}",
        "remote_port" => "{client_port}",
        "request_method" => "{method}",
        "request_id" => "{request_id}",
        "ssl_protocol" => "{tls_version}",
        "hostname" => HOSTNAME,
        // Larder's parts of objects are none of nginx's.
        "slice_range" => return Some(String::new()),
        "server_name" if !server_name.is_empty() => return Some(braced(server_name)),
        _ => "",
    };
    if !plain.is_empty() {
        return Some(plain.to_owned());
    }
    if let Some(field) = name.strip_prefix("http_").filter(|field| !field.is_empty()) {
        return Some(format!("{{header.{}}}", field.replace('_', "-")));
    }
    if let Some(cookie) = name.strip_prefix("cookie_").filter(|cookie| !cookie.is_empty()) {
        return Some(format!("{{cookie.{cookie}}}"));
    }
    if let Some(parameter) = name.strip_prefix("arg_").filter(|parameter| !parameter.is_empty()) {
        return Some(format!("{{query.{parameter}}}"));
    }
    let number: usize = name.parse().ok().filter(|number| (1..=9).contains(number))?;
    Some(format!("{{capture.{number}}}"))
}
