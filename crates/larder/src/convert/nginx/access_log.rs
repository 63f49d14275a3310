//! `access_log` and `log_format`: the general log, those of sites, and their one format.

use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::{Directive, walk};
use crate::convert::nginx::values;
use crate::convert::output::{Output, Table, text};

/// Writes the general log: that around the servers, else the first of a server.
pub fn general(scope: &Scope<'_>, all: &[&Directive], out: &mut Output) {
    let logs = || all.iter().copied().filter(|one| one.name == "access_log");
    let first = scope.get("access_log").filter(|one| one.arg(0) != "off");
    let Some(log) = first.or_else(|| logs().find(|one| one.arg(0) != "off")) else { return };
    let Some(target) = target(log, out) else { return };
    out.set("access-log", text(&target));
    let format = options(log, out);
    if let Some(name) = format {
        log_format(name, log, all, out);
    }
    for other in logs().filter(|other| other.arg(0) != "off" && name_of_format(other) != format) {
        out.lose(&other.at, "access_log", "all logs have one format");
    }
}

/// Makes the log of the server that answers for all other hosts the general one.
pub fn of_default(scope: &Scope<'_>, block: &[Directive], out: &mut Output) {
    let Some(log) = scope.get("access_log") else { return };
    if let Some(target) = target(log, out) {
        out.set("access-log", text(&target));
    }
    lose_inner(log, block, out);
}

/// Writes the log of a site, if it is another than the general one.
pub fn of_site(scope: &Scope<'_>, block: &[Directive], table: &mut Table, out: &mut Output) {
    let Some(log) = scope.get("access_log") else { return };
    if let Some(target) = target(log, out).filter(|target| !is_general(target, out)) {
        table.set("access-log", text(&target));
    }
    lose_inner(log, block, out);
}

/// Reports the log of a server that is no site, if it is another than the general one.
pub fn lose(scope: &Scope<'_>, out: &mut Output) {
    let Some(log) = scope.get("access_log") else { return };
    if log.arg(0) != "off" && target(log, out).is_some_and(|target| !is_general(&target, out)) {
        out.lose(&log.at, "access_log", "the server is no site, which may have a log of its own");
    }
}

/// Reports the logs of locations, which are other ones than that of their server.
fn lose_inner(log: &Directive, block: &[Directive], out: &mut Output) {
    walk(block, &mut |one| {
        if one.name == "access_log" && !["off", log.arg(0)].contains(&one.arg(0)) {
            out.lose(&one.at, "access_log", "a site has one access log");
        }
    });
}

fn is_general(target: &str, out: &Output) -> bool {
    out.get("access-log").map_or(target == "off", |general| *general == text(target))
}

/// Returns the destination as settings name it.
fn target(log: &Directive, out: &mut Output) -> Option<String> {
    let target = log.arg(0);
    if target.contains('$') {
        out.lose(&log.at, "access_log", "a path with variables has no equivalent");
        return None;
    }
    Some(match target.strip_prefix("syslog:server=") {
        _ if target == "/dev/stdout" => "-".to_owned(),
        Some(server) => format!("syslog:{}", server.split(',').next().unwrap_or_default()),
        None => target.to_owned(),
    })
}

/// Returns the name of the format, and reports the options that are lost.
fn options<'a>(log: &'a Directive, out: &mut Output) -> Option<&'a str> {
    if log.args.iter().any(|option| option.starts_with("if=")) {
        out.lose(&log.at, "access_log if", "log-percent in rules leaves requests out");
    }
    name_of_format(log)
}

/// Returns the name of a format of the configuration's own.
fn name_of_format(log: &Directive) -> Option<&str> {
    let name = log.args.get(1).map(String::as_str)?;
    Some(name).filter(|name| *name != "combined" && !name.contains('='))
}

/// Reads the `log_format` that an `access_log` names.
fn log_format(name: &str, log: &Directive, all: &[&Directive], out: &mut Output) {
    let Some(format) = all.iter().find(|one| one.name == "log_format" && one.arg(0) == name) else {
        return out.lose(&log.at, &format!("log_format {name}"), "there is no such format");
    };
    let pieces = format.args.iter().skip(1).filter(|arg| !arg.starts_with("escape="));
    let joined = pieces.cloned().collect::<String>().replace("${", "$");
    let mut parts = joined.split('$');
    let mut made = values::braced(parts.next().unwrap_or_default());
    let mut unknown: Vec<&str> = Vec::new();
    let asks_names = all.iter().any(|one| one.name == "auth_basic" && one.arg(0) != "off");
    let mut note = |variable: &str, reason: &str| {
        out.note(&format.at, &format!("log_format {name} ${variable}"), reason);
    };
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (variable, rest) = part.split_at(end.unwrap_or(part.len()));
        let known = match variable {
            "request" => Some("{method} {uri}".to_owned()),
            "time_local" | "time_iso8601" | "msec" => Some("{time}".to_owned()),
            "bytes_sent" | "body_bytes_sent" => Some("{bytes}".to_owned()),
            "status" => Some("{status}".to_owned()),
            "request_time" => Some("{duration}".to_owned()),
            "upstream_header_time" | "upstream_response_time" => Some("{upstream_time}".to_owned()),
            "upstream_addr" => Some("{upstream}".to_owned()),
            "upstream_cache_status" => Some("{outcome}".to_owned()),
            "upstream_status" => Some("{upstream_status}".to_owned()),
            "remote_user" if !asks_names => {
                note(variable, "- is written: no location asks for names");
                Some("-".to_owned())
            }
            "server_name" => {
                note(variable, "the name of the site");
                Some("{site}".to_owned())
            }
            variable if field_of_response(variable).is_some() => field_of_response(variable),
            variable => values::template(&format!("${variable}"), ""),
        };
        if known.is_none() {
            unknown.push(variable);
        }
        made.push_str(&known.unwrap_or_else(|| "-".to_owned()));
        made.push_str(&values::braced(rest.strip_prefix('}').unwrap_or(rest)));
    }
    if !unknown.is_empty() {
        let reason = format!("- is written for {}", unknown.join(", "));
        out.lose(&format.at, &format!("log_format {name}"), &reason);
    }
    if made.contains(char::is_control) {
        out.note(&format.at, &format!("log_format {name}"), "in one line");
        made = made.split(char::is_control).map(str::trim_end).collect::<Vec<_>>().join(" ");
    }
    out.set("log-format", text(&made));
}

/// Returns the variable of a response's field, the same for what a server sent and what is sent on.
fn field_of_response(variable: &str) -> Option<String> {
    let prefixes = ["upstream_http_", "sent_http_"];
    let field = prefixes.iter().find_map(|prefix| variable.strip_prefix(prefix))?;
    (!field.is_empty()).then(|| format!("{{response.{}}}", field.replace('_', "-")))
}
