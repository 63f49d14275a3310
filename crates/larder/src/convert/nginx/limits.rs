//! `limit_req`, `limit_conn`, `limit_rate` and `auth_basic`: rules that admit requests.

use std::collections::BTreeMap;

use crate::convert::cases::both;
use crate::convert::nginx::condition::Variables;
use crate::convert::nginx::forwarded;
use crate::convert::nginx::mapped_fields;
use crate::convert::nginx::replies::Place;
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::Directive;
use crate::convert::output::{Output, text};
use crate::convert::rule_draft::{RuleDraft, Tests};
use crate::convert::units_of_others::{size, size_text};

/// Zones of limits, by their directive and name.
#[derive(Debug, Default)]
pub struct Zones {
    by_name: BTreeMap<(String, String), Zone>,
}

#[derive(Debug)]
struct Zone {
    /// The value of `limit-by`.
    key: Result<String, String>,
    /// The requests that are counted; none: all.
    any: Vec<Tests>,
    /// The value of `limit-rate`.
    rate: Option<String>,
}

impl Zones {
    /// Reads `limit_req_zone` and `limit_conn_zone`.
    pub fn new(block: &[Directive], variables: &Variables) -> Zones {
        let mut zones = Zones::default();
        for one in block {
            let Some(of) = one.name.strip_suffix("_zone").filter(|of| of.starts_with("limit_"))
            else {
                continue;
            };
            let option = |name: &str| one.args.iter().find_map(|arg| arg.strip_prefix(name));
            let name = option("zone=").and_then(|zone| zone.split(':').next()).unwrap_or_default();
            let by_map = || block.iter().find(|map| map.name == "map" && map.arg(1) == one.arg(0));
            let (key, any) = match key(one.arg(0)) {
                Err(why) => match by_map().map(|map| counted(map, variables)) {
                    Some(Ok((key, any))) => (Ok(key), any),
                    Some(Err(other)) => (Err(format!("{why}: {other}")), Vec::new()),
                    None => (Err(why), Vec::new()),
                },
                key => (key, Vec::new()),
            };
            // Requests without the field are not counted.
            let field = key.as_ref().ok().and_then(|key| key.strip_prefix("header."));
            let any = match field {
                Some(field) if any.is_empty() => {
                    vec![Tests::one("headers", format!("{field}: ~."))]
                }
                _ => any,
            };
            let zone = Zone { key, any, rate: option("rate=").and_then(rate) };
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
fn key(text: &str) -> Result<String, String> {
    match text {
        "$binary_remote_addr" | "$remote_addr" => Ok("client".to_owned()),
        "$server_name" => Ok("site".to_owned()),
        text if !text.contains('$') => Ok("rule".to_owned()),
        text => {
            let field = text.strip_prefix("$http_").filter(|_| !forwarded::is_removed(&text[1..]));
            let is_name =
                |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            let field = field.filter(is_name).ok_or(format!("nothing counts by {text}"))?;
            Ok(format!("header.{}", field.replace('_', "-")))
        }
    }
}

/// Returns what a `map` counts by, and the requests for which it has no empty value.
fn counted(map: &Directive, variables: &Variables) -> Result<(String, Vec<Tests>), String> {
    let mut keys: Vec<&str> = map.inner().iter().map(|one| one.arg(0)).collect();
    keys.retain(|key| !key.is_empty());
    keys.sort_unstable();
    keys.dedup();
    let [by] = keys[..] else { return Err("the map has several values".to_owned()) };
    Ok((key(by)?, mapped_fields::not_empty(map, variables)?))
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
        match (zones.of(one, one.arg(0)), one.arg(1).parse::<u32>()) {
            (Ok(zone), Ok(most @ 1..)) => {
                let Some(mut rule) = draft(one, place, zone, out) else { continue };
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
        Ok((rate, zone))
    });
    let (rate, zone) = match found {
        Ok(found) => found,
        Err(why) => return out.lose(&one.at, "limit_req", &why),
    };
    let number = |name| option(name).and_then(|number| number.parse::<u32>().ok());
    let burst = number("burst=").unwrap_or(0);
    let undelayed = if one.args.iter().any(|arg| arg == "nodelay") { burst } else { 0 };
    let queue = burst.saturating_sub(number("delay=").unwrap_or(undelayed));
    let Some(mut rule) = draft(one, place, zone, out) else { return };
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
fn draft(
    one: &Directive,
    place: &Place<'_, '_>,
    zone: &Zone,
    out: &mut Output,
) -> Option<RuleDraft> {
    let mut rule = place.rule(&one.name);
    rule.continues = true;
    if !zone.any.is_empty() {
        let any =
            if rule.any.is_empty() { Ok(zone.any.clone()) } else { both(&rule.any, &zone.any) };
        match any {
            Ok(any) => rule.any = any,
            Err(why) => {
                out.lose(&one.at, &one.name, &why);
                return None;
            }
        }
    }
    let key = zone.key.as_deref().unwrap_or_default();
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
    Some(rule)
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
