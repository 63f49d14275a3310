//! Varnish: VCL 4 with its backends, access lists and subroutines.
//!
//! A subroutine is walked with the condition under which its statements run: what follows `if (…) {
//! return (pass); }` has the opposite of that condition. Every statement becomes a rule that
//! continues, except for responses.

mod acl;
mod backends;
mod bans;
mod careful;
pub mod condition;
mod edited_url;
pub mod host_test;
mod idioms;
mod idle_subs;
mod purgers;
mod refusal;
mod syntax;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::rule_actions::is_html;
use crate::convert::nginx::values::braced;
use crate::convert::output::{Output, list, text};
use crate::convert::rule_draft::{RuleDraft, Tests};
use crate::convert::units_of_others::{shorter, time};
use crate::convert::vcl::acl::Acls;
use crate::convert::vcl::backends::Backends;
use crate::convert::vcl::syntax::Statement;
use crate::convert::vcl::walk::{Sub, Walk};

/// Subroutines that are read for themselves.
const READ: [&str; 6] = [
    "vcl_backend_error",
    "vcl_recv",
    "vcl_hash",
    "vcl_backend_response",
    "vcl_deliver",
    "vcl_init",
];

/// Statuses that Varnish stores for its default time.
const STORED: [&str; 8] = ["200", "203", "204", "300", "301", "404", "410", "414"];

/// Converts a file. The error is a sentence.
pub fn convert(path: &Path, source: &str) -> Result<Output, String> {
    let all = syntax::read(path, source, &[path.to_owned()])?;
    let mut out = Output::default();
    let (mut subs, mut acls) = (BTreeMap::<&str, Vec<&Statement>>::new(), Acls::new());
    let mut backends = Backends::default();
    for one in &all {
        match one.word(0) {
            "vcl" | "import" => {}
            "acl" => {
                acls.insert(one.word(1).to_owned(), acl::read(one, &mut out));
            }
            "probe" => backends.probe(one.word(1), one.inner()),
            "backend" => backends.add(one, &mut out),
            "sub" => subs.entry(one.word(1)).or_default().extend(one.inner()),
            _ => out.lose(&one.at(), &one.text(), "unknown declaration"),
        }
    }
    backends.directors(subs.get("vcl_init").map(Vec::as_slice).unwrap_or_default(), &mut out);
    backends.write(&mut out);
    out.set("forwarded.add", list(&["x-forwarded-for"]));
    out.set("caching.heuristic-percent", "0".to_owned());
    // Varnish does not look at Cache-Control of requests.
    out.set("caching.client-reload", text("ignore"));
    let hints = idle_subs::read(&subs, &READ, &mut out);
    let grace = hints.healthy_grace.as_deref().map_or("10s", |grace| shorter(grace, "10s"));
    let grace = time(grace).unwrap_or_default();
    out.set("caching.stale-while-revalidate", text(&grace));
    out.settle();
    defaults(&mut out);
    forwarded(&all, &mut out);
    let mut walk = Walk::new(&acls, &backends, &subs, hints);
    for (name, kind) in [
        ("vcl_recv", Sub::Recv),
        ("vcl_hash", Sub::Hash),
        ("vcl_backend_response", Sub::Response),
        ("vcl_deliver", Sub::Deliver),
    ] {
        walk.run(name, kind, &mut out);
    }
    walk.late(&mut out);
    if let Some(statements) = subs.get("vcl_backend_error") {
        error_page(statements, &mut out);
    }
    Ok(out)
}

/// Writes the page of `vcl_backend_error`, if it is one text for all errors.
fn error_page(statements: &[&Statement], out: &mut Output) {
    for one in statements.iter().filter(|one| one.word(0) != "return") {
        let words: Vec<&str> = one.tokens.iter().map(|token| token.text.as_str()).collect();
        match words[..] {
            // A status or a file's name would begin so.
            ["synthetic", "(", page, ")"]
                if !page.starts_with(|c: char| c == '@' || c.is_ascii_digit()) =>
            {
                let text_of = braced(page);
                if page.trim_start().starts_with('<') && !is_html(&text_of) {
                    out.lose(&one.at(), "synthetic", "the page is sent as text/plain");
                }
                let mut rule = RuleDraft::new("vcl_backend_error", &Tests::default());
                rule.continues = true;
                rule.add("error-page", format!("5xx {text_of}"));
                rule.set("error-page-for", text("proxy"));
                rule.push(out);
            }
            ["set", "beresp.http.Content-Type", ..] => {}
            _ => out.lose(&one.at(), "vcl_backend_error", "only a text has an equivalent"),
        }
    }
}

/// Reports the field of a proxy in front, which needs `forwarded.trust`.
fn forwarded(all: &[Statement], out: &mut Output) {
    for one in all {
        let name = |text: &str| text.to_ascii_lowercase().ends_with("http.x-forwarded-proto");
        if let Some(token) = one.tokens.iter().find(|token| name(&token.text)) {
            let reason = "counts from proxies in forwarded.trust only: name that in front";
            return out.lose(&token.at, &token.text, reason);
        }
        forwarded(one.inner(), out);
    }
}

/// Writes what Varnish does without being told.
fn defaults(out: &mut Output) {
    let mut rule = RuleDraft::new("Varnish's default_ttl", &Tests::default());
    rule.continues = true;
    let times: Vec<String> = STORED.iter().map(|status| format!("{status} 2m")).collect();
    rule.set("default-ttl", list(&times));
    rule.push(out);
}
