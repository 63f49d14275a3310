//! Statements that refuse requests, or keep them or their responses from the cache.

use crate::convert::vcl::syntax::{Statement, Token};

/// Returns whether a branch does nothing but refuse requests or keep them from the cache.
pub fn is_refusal(all: &[Statement]) -> bool {
    // A lifetime beside it is how long that is remembered.
    let is_private = all.iter().any(|one| one.word(1) == "beresp.uncacheable");
    let is_time = |one: &Statement| matches!(one.word(1), "beresp.ttl" | "beresp.grace");
    !all.is_empty() && all.iter().all(|one| keeps_out(one) || (is_private && is_time(one)))
}

/// Returns whether a statement does nothing but refuse requests or keep them from the cache.
pub fn keeps_out(one: &Statement) -> bool {
    let is_unstored = one.word(1) == "beresp.uncacheable" && one.word(3) == "true"
        || one.word(1) == "beresp.ttl" && one.word(3).starts_with('0') && one.tokens.len() == 4;
    let is_end = one.word(0) == "return" && matches!(one.word(2), "pass" | "pipe" | "deliver");
    let is_log = one.word(0) == "std.log";
    is_unstored || is_end || is_log || refuses(one)
}

/// Returns whether a branch of `vcl_recv` does nothing but answer requests. Its rule decides on
/// them, so rules behind it need not exclude them.
pub fn is_answered(all: &[Statement]) -> bool {
    let is_synth = |one: &Statement| (one.word(0), one.word(2)) == ("return", "synth");
    matches!(all, [one] if is_synth(one))
}

/// Returns whether a branch by the host chooses a backend, so that other hosts have another.
pub fn chooses_by_host(one: &Statement) -> bool {
    fn chooses(one: &Statement) -> bool {
        one.word(1) == "req.backend_hint" || one.inner().iter().any(chooses)
    }
    let is_host = |token: &Token| token.text.eq_ignore_ascii_case("req.http.host");
    one.tokens.iter().any(is_host) && chooses(one)
}

/// Returns whether a statement refuses requests.
pub fn refuses(one: &Statement) -> bool {
    let is_error = one.word(4).parse().is_ok_and(|code: u16| (400..600).contains(&code));
    one.word(0) == "return" && (one.word(2) == "fail" || (one.word(2) == "synth" && is_error))
}

/// Returns whether a statement, or one within it, keeps requests from what they ask for: by a
/// refusal, a redirect, or a status that `vcl_synth` knows.
pub fn turns_away(one: &Statement) -> bool {
    let is_done = one.word(2) == "synth" && one.word(4).starts_with('2') && one.word(4).len() == 3;
    let is_end = one.word(0) == "return" && matches!(one.word(2), "synth" | "fail");
    (is_end && !is_done) || one.inner().iter().any(turns_away)
}

/// Returns whether the responses of a branch are not stored, and it ends for them.
pub fn keeps_from_cache(all: &[Statement]) -> bool {
    let is_unstored = |one: &Statement| {
        (one.word(1), one.word(3)) == ("beresp.uncacheable", "true") && one.tokens.len() == 4
    };
    let is_end = |one: &Statement| one.word(0) == "return" && one.word(2) == "deliver";
    all.iter().any(is_unstored) && all.last().is_some_and(is_end)
}

/// Returns whether statements do nothing but edit one field, by its name in lower case.
pub fn only_edits(all: &[Statement], field: &str) -> bool {
    let of = |one: &Statement| match one.word(0) {
        "set" | "unset" => one.word(1).eq_ignore_ascii_case(field),
        "if" | "else" | "elsif" | "elseif" | "elif" => only_edits(one.inner(), field),
        _ => false,
    };
    !all.is_empty() && all.iter().all(of)
}

/// Returns whether a branch is for responses with a lifetime, `if (beresp.ttl > 0s && …)`, and does
/// nothing but keep them from the cache, or store them without cookies.
pub fn has_lifetime(tokens: &[Token], one: &Statement) -> bool {
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.text == text);
    let has_more = is(4, "&&") && tokens[5..].iter().all(|token| !token.is("||") || is(5, "("));
    is(0, "(")
        && (is(1, "beresp.ttl") && is(2, ">") && is(3, "0s"))
        && (has_more || (is(4, ")") && tokens.len() == 5))
        && one.inner().iter().all(is_for_stored)
}

/// Returns whether a statement keeps a response from the cache, or matters to stored ones alone.
pub fn is_for_stored(one: &Statement) -> bool {
    match one.word(0) {
        "unset" => one.word(1).eq_ignore_ascii_case("beresp.http.set-cookie"),
        "std.collect" => one.word(2).eq_ignore_ascii_case("beresp.http.set-cookie"),
        "if" => is_refusal(one.inner()) && !ends(one.inner()),
        _ => false,
    }
}

pub fn ends(all: &[Statement]) -> bool {
    all.iter().any(|one| one.word(0) == "return" || ends(one.inner()) || one.word(0) == "call")
}

pub fn has_pass(all: &[Statement]) -> bool {
    all.iter().any(|one| {
        (one.word(0) == "return" && matches!(one.word(2), "pass" | "pipe")) || has_pass(one.inner())
    })
}

pub fn has_uncacheable(all: &[Statement]) -> bool {
    all.iter().any(|one| {
        one.word(1) == "beresp.uncacheable"
            || (one.word(1) == "beresp.ttl" && one.word(3).starts_with('0'))
            || has_uncacheable(one.inner())
    })
}
