//! `limit_req`, `limit_conn`, `limit_rate` and `auth_basic`: rules that admit requests.

use std::collections::BTreeMap;

use crate::convert::nginx::replies::Place;
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::Directive;
use crate::convert::output::{Output, text};
use crate::convert::rule_draft::RuleDraft;
use crate::convert::units_of_others::{size, size_text};

/// Zones of limits, by their directive and name.
#[derive(Debug, Default)]
pub struct Zones {
    by_name: BTreeMap<(String, String), Zone>,
}

#[derive(Debug)]
struct Zone {
    /// The value of `limit-by`.
    key: Result<&'static str, String>,
    /// The value of `limit-rate`.
    rate: Option<String>,
}

impl Zones {
    /// Reads `limit_req_zone` and `limit_conn_zone`.
    pub fn new(block: &[Directive]) -> Zones {
        let mut zones = Zones::default();
        for one in block {
            let Some(of) = one.name.strip_suffix("_zone").filter(|of| of.starts_with("limit_"))
            else {
                continue;
            };
            let option = |name: &str| one.args.iter().find_map(|arg| arg.strip_prefix(name));
            let name = option("zone=").and_then(|zone| zone.split(':').next()).unwrap_or_default();
            let zone = Zone { key: key(one.arg(0)), rate: option("rate=").and_then(rate) };
            zones.by_name.insert((of.to_owned(), name.to_owned()), zone);
        }
        zones
    }

    /// Returns the zone that a directive names, or why it has no equivalent.
    fn of(&self, one: &Directive, name: &str) -> Result<&Zone, String> {
        let place = (one.name.clone(), name.to_owned());
        let zone = self.by_name.get(&place).ok_or("there is no such zone")?;
        zone.key.clone()?;
        Ok(zone)
    }
}

/// Returns what a zone counts by, as the value of `limit-by`.
fn key(text: &str) -> Result<&'static str, String> {
    match text {
        "$binary_remote_addr" | "$remote_addr" => Ok("client"),
        "$server_name" => Ok("site"),
        text if !text.contains('$') => Ok("rule"),
        text => Err(format!("nothing counts by {text}")),
    }
}

fn rate(text: &str) -> Option<String> {
    let text = text.replace("r/", "/");
    text.parse::<proxy::rules::limits::Rate>().ok().map(|_| text)
}

/// Pushes the rules of limits. `before` is the location whose other requests the place gets: nginx
/// counts a request once, and what the location inherits has been written for it.
pub fn write(place: &Place<'_, '_>, before: Option<&Scope<'_>>, zones: &Zones, out: &mut Output) {
    let all = |name: &str| match before {
        Some(before) if before.all(&[name]).is_empty() => {
            place.scope.alone(place.scope.block()).all(&[name])
        }
        Some(_) => Vec::new(),
        None => place.scope.all(&[name]),
    };
    for one in all("limit_req") {
        requests(one, place, zones, out);
    }
    for one in all("limit_conn") {
        let zone = zones.of(one, one.arg(0)).map(|zone| zone.key.clone().unwrap_or_default());
        match (zone, one.arg(1).parse::<u32>()) {
            (Ok(key), Ok(most @ 1..)) => {
                let mut rule = draft(one, place, key);
                rule.set("limit-name", text(one.arg(0)));
                rule.set("limit-concurrent", most.to_string());
                rule.push(out);
            }
            (Ok(_), _) => out.lose(&one.at, "limit_conn", "expected a number"),
            (Err(why), _) => out.lose(&one.at, "limit_conn", &why),
        }
    }
    // Of both locations the second sends the response.
    if before.is_none() || place.scope.own("limit_rate").is_some() {
        bandwidth(place, out);
    }
}

fn requests(one: &Directive, place: &Place<'_, '_>, zones: &Zones, out: &mut Output) {
    let option = |name: &str| one.args.iter().find_map(|arg| arg.strip_prefix(name));
    let name = option("zone=").unwrap_or_default();
    let found = zones.of(one, name).and_then(|zone| {
        let rate = zone.rate.clone().ok_or("expected a rate such as 10r/s")?;
        Ok((rate, zone.key.clone()?))
    });
    let (rate, key) = match found {
        Ok(found) => found,
        Err(why) => return out.lose(&one.at, "limit_req", &why),
    };
    let number = |name| option(name).and_then(|number| number.parse::<u32>().ok());
    let burst = number("burst=").unwrap_or(0);
    let undelayed = if one.args.iter().any(|arg| arg == "nodelay") { burst } else { 0 };
    let queue = burst.saturating_sub(number("delay=").unwrap_or(undelayed));
    let mut rule = draft(one, place, key);
    rule.set("limit-name", text(name));
    rule.set("limit-rate", text(&rate));
    for (key, count) in [("limit-burst", burst), ("limit-queue", queue)] {
        if count > 0 {
            rule.set(key, count.to_string());
        }
    }
    rule.push(out);
}

/// Returns the rule of a limit of requests.
fn draft(one: &Directive, place: &Place<'_, '_>, key: &str) -> RuleDraft {
    let mut rule = place.rule(&one.name);
    rule.continues = true;
    if key != "client" {
        rule.set("limit-by", text(key));
    }
    let of = |suffix: &str| place.scope.arg(&format!("{}_{suffix}", one.name));
    let status = of("status").unwrap_or("503");
    if status != "429" {
        rule.set("limit-status", status);
    }
    if of("dry_run") == Some("on") {
        rule.set("limit-dry-run", "true");
    }
    rule
}

fn bandwidth(place: &Place<'_, '_>, out: &mut Output) {
    let Some(one) = place.scope.get("limit_rate").filter(|one| one.arg(0) != "0") else { return };
    let after = place.scope.arg("limit_rate_after").map_or(Some(0), size);
    let (Some(rate), Some(after)) = (size(one.arg(0)).filter(|rate| *rate > 0), after) else {
        return out.lose(&one.at, "limit_rate", "expected a size");
    };
    let mut rule = place.rule("limit_rate");
    rule.continues = true;
    rule.set("limit-bandwidth", size_text(rate));
    if after > 0 {
        rule.set("limit-bandwidth-after", size_text(after));
    }
    rule.set("limit-by", text("request"));
    rule.push(out);
}

/// Pushes the rule of `auth_basic`. Returns false if it has no equivalent.
pub fn password(one: &Directive, place: &Place<'_, '_>, out: &mut Output) -> bool {
    let Some(file) = place.scope.arg("auth_basic_user_file") else { return false };
    if file.contains('$') || one.arg(0).contains('$') || place.scope.arg("satisfy") == Some("any") {
        return false;
    }
    let mut rule = place.rule("auth_basic");
    rule.continues = true;
    rule.set("basic-auth", text(&format!("@{file}")));
    rule.set("realm", text(one.arg(0)));
    rule.push(out);
    let fields = place.scope.all(&["proxy_set_header"]);
    let is_sent = !fields.iter().any(|field| field.arg(0).eq_ignore_ascii_case("authorization"));
    if is_sent && place.scope.get("proxy_pass").is_some() {
        let reason = "the origin server does not get Authorization (request-set passes it on)";
        out.lose(&one.at, "auth_basic", reason);
    }
    true
}
