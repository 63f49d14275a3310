//! `proxy_cache_min_uses`: one admission for all locations.

use crate::convert::nginx::syntax::Directive;
use crate::convert::output::{Output, text};

/// Lets the cache store what is requested twice, if all locations that use it say so.
pub fn write(block: &[Directive], out: &mut Output) {
    let mut found = Vec::new();
    cached(block, ("off", "1"), &mut found);
    if !found.is_empty() && found.iter().all(|uses| *uses == "2") {
        out.set("store.admission", text("second-hit"));
    }
}

/// Returns whether the configuration has a number of uses.
pub fn is_stated(uses: &str, out: &Output) -> bool {
    uses == "1" || (uses == "2" && out.get("store.admission").is_some())
}

/// Finds the numbers of the proxied locations with a cache. `around` has the zone and the number of
/// the block around.
fn cached<'a>(block: &'a [Directive], around: (&'a str, &'a str), found: &mut Vec<&'a str>) {
    let own = |name: &str| block.iter().rfind(|one| one.name == name).map(|one| one.arg(0));
    let zone = own("proxy_cache").unwrap_or(around.0);
    let uses = own("proxy_cache_min_uses").unwrap_or(around.1);
    if own("proxy_pass").is_some() && zone != "off" {
        found.push(uses);
    }
    for one in block {
        cached(one.inner(), (zone, uses), found);
    }
}
