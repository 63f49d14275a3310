//! Subroutines beside the main ones, where they do what Larder does by itself: `vcl_hit`,
//! `vcl_miss`, `vcl_pass`, `vcl_pipe`, `vcl_purge`, and redirects in `vcl_synth`.

use std::collections::BTreeMap;

use crate::convert::output::Output;
use crate::convert::units_of_others::time;
use crate::convert::vcl::refusal::turns_away;
use crate::convert::vcl::syntax::{Statement, Token};

/// Redirects of `vcl_synth` by their invented statuses: the status that is sent, and the location,
/// which is the reason if there is none.
pub type Redirects<'a> = BTreeMap<&'a str, (&'a str, Option<&'a [Token]>)>;

/// Facts in these subroutines that decide on the translation of others.
#[derive(Debug, Default)]
pub struct Hints<'a> {
    pub redirects: Redirects<'a>,
    /// How stale a response may be while its server is healthy, as written, if that is less than
    /// the grace.
    pub healthy_grace: Option<String>,
    /// Statements behind `vcl_recv` that have no equivalent, by subroutine.
    pub late: BTreeMap<&'a str, Vec<&'a Statement>>,
}

/// Subroutines behind `vcl_recv` in which requests can be refused.
const LATE: [&str; 5] = ["vcl_hit", "vcl_miss", "vcl_pass", "vcl_pipe", "vcl_backend_fetch"];

/// Reads the subroutines that are not walked; reports what has no equivalent.
pub fn read<'a>(
    subs: &BTreeMap<&'a str, Vec<&'a Statement>>,
    walked: &[&str],
    out: &mut Output,
) -> Hints<'a> {
    let mut hints = Hints::default();
    let purges = subs.get("vcl_recv").is_some_and(|all| all.iter().any(|one| is_method(one)));
    for (name, all) in subs {
        if !name.starts_with("vcl_") || walked.contains(name) {
            continue;
        }
        let mut rest = &all[..];
        while let [one, behind @ ..] = rest {
            let known = match *name {
                _ if returns(name, one) => 1,
                "vcl_hit" | "vcl_miss" if purges && is_purge(one) => 1,
                "vcl_hit" => hit(one, behind, &mut hints),
                "vcl_pipe" => usize::from(is_pipe(one)),
                "vcl_synth" => usize::from(is_redirect(one, &mut hints.redirects)),
                "vcl_purge" => usize::from(is_refetch(one, out)),
                _ => 0,
            };
            if known == 0 {
                let reason = match LATE.contains(name) && turns_away(one) {
                    true => "its refusals are for all requests, whether stored or not",
                    false => "this subroutine has no equivalent",
                };
                out.lose(&one.at(), name, reason);
                if LATE.contains(name) {
                    hints.late.entry(name).or_default().push(one);
                }
            }
            rest = &rest[known.clamp(1, rest.len())..];
        }
    }
    hints
}

fn words(tokens: &[Token]) -> Vec<&str> {
    tokens.iter().map(|token| token.text.as_str()).collect()
}

/// Returns whether a statement is the end that the subroutine has anyway.
fn returns(name: &str, one: &Statement) -> bool {
    let (word, action) = (one.word(0), one.word(2));
    word == "return"
        && match name {
            "vcl_hit" | "vcl_synth" => action == "deliver",
            "vcl_miss" => action == "fetch",
            "vcl_backend_fetch" => action == "fetch",
            "vcl_pass" => matches!(action, "fetch" | "pass"),
            "vcl_pipe" => action == "pipe",
            "vcl_purge" => action == "synth",
            "vcl_fini" => action == "ok",
            _ => false,
        }
}

/// Returns whether a statement of `vcl_purge` only makes the request again, as one that fetches.
fn is_refetch(one: &Statement, out: &mut Output) -> bool {
    match one.word(0) {
        "if" => one.inner().iter().all(|inner| is_refetch(inner, out)),
        "set" => one.word(1).starts_with("req."),
        "return" if one.word(2) == "restart" => {
            let reason =
                "a purge is answered at once, and the page is fetched when it is asked for";
            out.note(&one.at(), "vcl_purge", reason);
            true
        }
        _ => false,
    }
}

fn is_method(one: &Statement) -> bool {
    words(&one.tokens) == ["if", "(", "req.method", "==", "PURGE", ")"]
}

/// `if (req.method == "PURGE") { … return (synth(200, …)); }` behind a lookup: a purge removes what
/// is stored.
fn is_purge(one: &Statement) -> bool {
    let is_end = |one: &Statement| {
        matches!((one.word(0), one.word(2)), ("return", "synth") | ("ban", "req.url"))
            || one.word(0) == "purge"
    };
    is_method(one) && one.inner().iter().all(is_end)
}

/// Connections of a bypass are made anew or kept as they need, and upgrades are passed on.
fn is_pipe(one: &Statement) -> bool {
    let is_step = |one: &Statement| {
        let is_connection = one.word(1).to_ascii_lowercase().ends_with("req.http.connection");
        let is_upgrade = one.word(1).to_ascii_lowercase().ends_with("req.http.upgrade");
        let is_own = one.word(3).eq_ignore_ascii_case("req.http.upgrade");
        let keeps = ["close", "req.http.connection"];
        let is_kept = keeps.contains(&one.word(3).to_ascii_lowercase().as_str());
        one.word(0) == "set" && ((is_connection && is_kept) || (is_upgrade && is_own))
    };
    let condition = words(&one.tokens).join("").to_ascii_lowercase();
    is_step(one) || (condition == "if(req.http.upgrade)" && one.inner().iter().all(is_step))
}

/// Returns how many statements of `vcl_hit` serve what is fresh, or stale within its grace.
fn hit(one: &Statement, behind: &[&Statement], hints: &mut Hints<'_>) -> usize {
    let is_served = |one: &Statement| {
        let is_kept = |one: &Statement| {
            returns("vcl_hit", one) || one.word(1).eq_ignore_ascii_case("req.http.grace")
        };
        one.inner().iter().all(is_kept) && one.inner().iter().any(|one| one.word(0) == "return")
    };
    let condition = words(&one.tokens).join("");
    match condition.as_str() {
        "if(obj.ttl>=0s)" | "if(obj.ttl>0s)" | "if(obj.ttl+obj.grace>0s)" => {
            usize::from(is_served(one))
        }
        // What is stale is fetched.
        "if(!obj.ttl>0s)" | "if(!(obj.ttl>0s))" | "if(obj.ttl<=0s)" => {
            let is_fetch = |one: &Statement| {
                one.word(0) == "return"
                    && ["pass", "miss", "fetch", "restart"].contains(&one.word(2))
            };
            let is_known = one.inner().len() == 1 && one.inner().iter().all(is_fetch);
            if is_known {
                hints.healthy_grace = Some("0s".to_owned());
            }
            usize::from(is_known)
        }
        "if(std.healthy(req.backend_hint))" => {
            let Some(grace) = healthy(one.inner()) else { return 0 };
            let is_sick = |one: &Statement| {
                let is_all = words(&one.tokens).join("") == "if(obj.ttl+obj.grace>0s)";
                (is_all && is_served(one)) || one.word(0) == "return" || one.word(0) == "set"
            };
            let is_else = |next: &&Statement| {
                words(&next.tokens) == ["else"] && next.inner().iter().all(is_sick)
            };
            if !behind.first().is_some_and(is_else) {
                return 0;
            }
            hints.healthy_grace = grace;
            2
        }
        _ => 0,
    }
}

/// Reads `if (obj.ttl + 10s > 0s) { return (deliver); } else { return (miss); }`: the time, if
/// what is older is fetched. Without an `else`, Varnish serves it within its grace.
fn healthy(all: &[Statement]) -> Option<Option<String>> {
    let [first, rest @ ..] = all else { return None };
    let sum = words(&first.tokens);
    let ["if", "(", "obj.ttl", "+", grace, ">", "0s", ")"] = sum[..] else { return None };
    let serves = first.inner().last().is_some_and(|one| returns("vcl_hit", one));
    let is_fetch = |one: &Statement| {
        one.word(0) == "return" && matches!(one.word(2), "restart" | "miss" | "fetch")
    };
    match rest {
        _ if !serves => None,
        [] => Some(None),
        [other] if words(&other.tokens) == ["else"] && other.inner().iter().all(is_fetch) => {
            Some(Some((*grace).to_owned())).filter(|_| time(grace).is_some())
        }
        _ => None,
    }
}

/// Reads `if (resp.status == 720) { set resp.http.Location = resp.reason; … }`.
fn is_redirect<'a>(one: &'a Statement, redirects: &mut Redirects<'a>) -> bool {
    let tokens = words(&one.tokens);
    let ([.., "if", "(", "resp.status", "==", status, ")"]
    | ["elsif" | "elseif" | "elif", "(", "resp.status", "==", status, ")"]) = tokens[..]
    else {
        return false;
    };
    let (mut location, mut sent) = (None, "");
    for step in one.inner() {
        match (step.word(0), step.word(1)) {
            ("set", "resp.http.Location" | "resp.http.location") => {
                let value = step.tokens.get(3..).unwrap_or_default();
                location = Some(Some(value).filter(|value| words(value) != ["resp.reason"]));
            }
            ("set", "resp.status") => sent = step.word(3),
            ("set", "resp.reason") => {}
            ("return", _) if returns("vcl_synth", step) => {}
            _ => return false,
        }
    }
    let sent = if sent.is_empty() { status } else { sent };
    let is_redirect = ["301", "302", "303", "307", "308"].contains(&sent);
    match location.filter(|_| is_redirect) {
        Some(location) => {
            redirects.insert(status, (sent, location));
            true
        }
        None => false,
    }
}
