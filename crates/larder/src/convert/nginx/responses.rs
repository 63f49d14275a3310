//! Changes of origin servers' responses: `proxy_redirect`, `error_page`, `sub_filter`.

use proxy::rules::request_rules::{LocationRewrite, Substitute};

use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::Directive;
use crate::convert::nginx::values::braced;
use crate::convert::output::{Output, list, text};
use crate::convert::rule_draft::RuleDraft;

/// Adds what `proxy_redirect` does to `Location`. `path` is that of a location by prefix.
pub fn redirects(
    scope: &Scope<'_>,
    path: Option<&str>,
    (name, at): (&str, &Directive),
    rule: &mut RuleDraft,
    out: &mut Output,
) {
    let usual = || {
        let url = scope.arg("proxy_pass").unwrap_or_default();
        let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
        match (has_path, path) {
            (true, Some(path)) => format!("{url} {path}"),
            (true, None) => String::new(),
            (false, _) => format!("{url}/ /"),
        }
    };
    let all = scope.all(&["proxy_redirect"]);
    if all.is_empty() && scope.arg("proxy_pass").is_some_and(|url| url.contains('$')) {
        return;
    }
    let told: Vec<(&Directive, String)> = match all.is_empty() {
        true => vec![(at, usual())],
        false => {
            let one = |one: &&'_ Directive| match one.args.as_slice() {
                [word] if word == "default" => usual(),
                [from, to] if !from.contains('$') => {
                    scope.template(to, name).map(|to| format!("{from} {to}")).unwrap_or_default()
                }
                _ => String::new(),
            };
            all.iter().filter(|d| d.arg(0) != "off").map(|d| (*d, one(d))).collect()
        }
    };
    let mut simple = Vec::new();
    for (at, rewrite) in told {
        match plain_prefixes(&rewrite) {
            Some(all) => {
                let reason = "taken for URLs that begin so";
                out.note(&at.at, &format!("proxy_redirect {}", at.arg(0)), reason);
                simple.extend(all.into_iter().map(|rewrite| (at, rewrite)));
            }
            None => simple.push((at, rewrite)),
        }
    }
    for (at, rewrite) in simple {
        match LocationRewrite::parse(&rewrite) {
            Ok(_) => rule.add("location-rewrite", rewrite),
            Err(_) => {
                let reason = "this change of Location has no equivalent";
                out.lose(&at.at, "proxy_redirect", reason);
            }
        }
    }
}

/// Returns the rewrites of beginnings that stand for one by an expression such as
/// `~https?://a.test(/.*) /{capture.1}`; `None` if it is another.
fn plain_prefixes(rewrite: &str) -> Option<Vec<String>> {
    let (from, to) = rewrite.strip_prefix('~')?.split_once(' ')?;
    let from = from.trim_start_matches(['*', '^']).trim_end_matches('$');
    let from = from.strip_suffix("(/.*)").or_else(|| from.strip_suffix("(/.+)"))?;
    let to = to
        .strip_suffix("{capture.1}")
        .filter(|to| !to.contains('{') || *to == "{scheme}://{host}")?;
    let schemes: &[&str] = if from.starts_with("https?://") { &["http", "https"] } else { &[""] };
    let host = from.strip_prefix("https?").unwrap_or(from).replace("\\.", ".");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '/' | '.' | '-' | '_');
    host.chars()
        .all(is_plain)
        .then(|| schemes.iter().map(|scheme| format!("{scheme}{host}/ {to}/")).collect())
}

/// Adds the pages of `error_page`: files below the `root` of their own location, or of this one.
pub fn pages(scope: &Scope<'_>, rule: &mut RuleDraft, out: &mut Output) {
    for page in scope.all(&["error_page"]) {
        if follows(scope, page) {
            follow(scope, page, rule, out);
            continue;
        }
        let Some((target, rest)) = page.args.split_last() else { continue };
        let (sent, statuses): (Vec<&String>, Vec<&String>) =
            rest.iter().partition(|one| one.starts_with('='));
        let sent = sent.first().map(|one| one.trim_start_matches('='));
        if let Some((status, text)) = named_text(scope, target) {
            let sent = sent.map(|sent| if sent.is_empty() { status } else { sent });
            let sent = sent.map(|sent| format!("{sent} ")).unwrap_or_default();
            for status in statuses {
                rule.add("error-page", format!("{status} {sent}{}", braced(text)));
            }
            let kind = scope.of_server().arg("default_type").unwrap_or("text/plain");
            if kind != "text/plain" && !kind.ends_with("octet-stream") {
                out.lose(&page.at, "error_page", "the text is sent as text/plain");
            }
            continue;
        }
        let file = target.starts_with('/').then(|| file(scope, target)).flatten();
        let (Some(file), Some(true) | None) = (file, sent.map(|sent| !sent.is_empty())) else {
            out.lose(&page.at, "error_page", "only files below a root have an equivalent");
            continue;
        };
        let sent = sent.map(|sent| format!("{sent} ")).unwrap_or_default();
        for status in statuses {
            rule.add("error-page", format!("{status} {sent}@{file}"));
        }
    }
    if rule.has("error-page") && !scope.is_on("proxy_intercept_errors") {
        rule.set("error-page-for", text("proxy"));
    }
}

/// Returns whether an `error_page` leads to a named location whose text is a page.
pub fn has_text(scope: &Scope<'_>, page: &Directive) -> bool {
    let target = page.args.last().filter(|_| page.name == "error_page");
    target.is_some_and(|target| named_text(scope, target).is_some())
}

/// Returns status and text of a named location that has nothing but a `return` with a plain text.
fn named_text<'a>(scope: &Scope<'a>, target: &str) -> Option<(&'a str, &'a str)> {
    let named = scope.locations().find(|one| one.args == [target])?;
    let name = |one: &Directive| one.name.clone();
    let names: Vec<String> = named.inner().iter().map(name).collect();
    let is_known = |name: &String| matches!(name.as_str(), "return" | "internal");
    let answer = named.inner().iter().find(|one| one.name == "return")?;
    let (status, text) = (answer.arg(0), answer.arg(1));
    let is_status = status.parse::<u16>().is_ok_and(|code| code == 200 || code >= 400);
    // A status or a file's name would begin so.
    let is_text = !text.is_empty()
        && !text.contains('$')
        && !text.starts_with(|c: char| c == '@' || c.is_ascii_digit());
    (target.starts_with('@') && names.iter().all(is_known) && is_status && is_text)
        .then_some((status, text))
}

/// Returns whether an `error_page` leads redirects of the origin to a named location that asks for
/// the URL in `Location`.
pub fn follows(scope: &Scope<'_>, page: &Directive) -> bool {
    let Some((target, statuses)) = page.args.split_last().filter(|_| page.name == "error_page")
    else {
        return false;
    };
    let is_redirect = |one: &String| one == "=" || REDIRECTS.contains(&one.as_str());
    let named = scope.locations().find(|one| one.args == [target.clone()]);
    let asks = |block: &[Directive]| {
        let pass = block.iter().find(|one| one.name == "proxy_pass");
        pass.is_some_and(|pass| is_location(pass.arg(0), block))
    };
    target.starts_with('@')
        && statuses.iter().any(|one| one == "=")
        && statuses.iter().all(is_redirect)
        && named.is_some_and(|named| asks(named.inner()))
}

/// Returns whether a value is that of `Location`, perhaps completed to a URL.
fn is_location(value: &str, block: &[Directive]) -> bool {
    const LOCATION: &str = "upstream_http_location";
    let has_location =
        |value: &str| value.replace(['{', '}'], "").contains(&format!("${LOCATION}"));
    let sets = sets(block, value);
    let is_set = !sets.is_empty() && sets.into_iter().all(has_location);
    value.starts_with('$') && !value.contains('/') && (value.contains(LOCATION) || is_set)
}

/// Returns the values that `set` gives a variable in a block and the blocks in it.
fn sets<'a>(block: &'a [Directive], variable: &str) -> Vec<&'a str> {
    let of = |one: &'a Directive| {
        let is_set = one.name == "set" && one.arg(0) == variable;
        let own = is_set.then(|| one.arg(1));
        own.into_iter().chain(sets(one.inner(), variable)).collect::<Vec<_>>()
    };
    block.iter().flat_map(of).collect()
}

/// Statuses of redirects.
const REDIRECTS: [&str; 5] = ["301", "302", "303", "307", "308"];

/// Adds `follow-redirects`.
fn follow(scope: &Scope<'_>, page: &Directive, rule: &mut RuleDraft, out: &mut Output) {
    if !scope.is_on("proxy_intercept_errors") {
        return;
    }
    let most = if scope.is_on("recursive_error_pages") { "10" } else { "1" };
    rule.set("follow-redirects", most);
    let reason = "redirects to hosts other than the site's own are followed once allowed-hosts \
                  lists them, and GET and HEAD alone";
    out.lose_once(&page.at, "error_page", reason);
}

/// Returns the file of a page.
fn file(scope: &Scope<'_>, target: &str) -> Option<String> {
    let own = scope.locations().find(|location| match location.args.as_slice() {
        [path] => path == target,
        [sign, path] => sign == "=" && path == target,
        _ => false,
    });
    let root = |location: &Directive| {
        location.inner().iter().find(|one| one.name == "root").map(|one| one.arg(0).to_owned())
    };
    let root = own.and_then(root).or_else(|| scope.arg("root").map(str::to_owned))?;
    (!root.contains('$')).then(|| format!("{}{target}", root.trim_end_matches('/')))
}

/// Adds the texts of `sub_filter`, or of `subs_filter` of a module.
pub fn texts(scope: &Scope<'_>, name: &str, rule: &mut RuleDraft, out: &mut Output) {
    let is_module = scope.all(&["sub_filter"]).is_empty();
    let (directive, types) = match is_module {
        true => ("subs_filter", "subs_filter_types"),
        false => ("sub_filter", "sub_filter_types"),
    };
    let is_once = !is_module && scope.arg("sub_filter_once") != Some("off");
    let texts = scope.all(&[directive]);
    let ignores_case = |one: &&Directive| !is_module || one.arg(2).contains('i');
    let is_insensitive = texts.first().is_some_and(ignores_case);
    let mut all = Vec::new();
    for one in texts {
        let is_once = is_once || one.arg(2).contains('o');
        if one.arg(2).contains('r') || ignores_case(&one) != is_insensitive {
            let reason = "only texts, in the same case for all, have an equivalent";
            out.lose(&one.at, directive, reason);
            continue;
        }
        if one.arg(1).contains("$http_host") {
            out.note(&one.at, directive, "the host without its port");
        }
        let to = scope.template(one.arg(1), name);
        let to = to.filter(|to| Substitute::new(one.arg(0), to, is_once).is_ok());
        let Some(to) = to.filter(|_| !one.arg(0).contains('$')) else {
            out.lose(&one.at, directive, "its variables have no equivalent");
            continue;
        };
        let once = if is_once { ", once = true" } else { "" };
        all.push(format!("{{ from = {}, to = {}{once} }}", text(one.arg(0)), text(&to)));
    }
    if all.is_empty() {
        return;
    }
    rule.set("substitute", format!("[{}]", all.join(", ")));
    if is_insensitive {
        rule.set("substitute-ignore-case", "true");
    }
    if let Some(types) = scope.get(types) {
        let types = types.args.iter().map(String::as_str).chain(["text/html"]);
        rule.set("substitute-types", list(&types.collect::<Vec<_>>()));
    }
    if let Some(kept) = scope.get("sub_filter_last_modified").filter(|one| one.arg(0) == "on") {
        let reason = "a changed body has no Last-Modified";
        out.lose(&kept.at, "sub_filter_last_modified", reason);
    }
}
