//! Origin servers of a rule that have settings of their own: a site without hosts and paths.

use std::collections::BTreeMap;

use crate::convert::nginx::backend::{DEFAULTS, NEXT, Servers};
use crate::convert::output::{Output, Table, list, text};

/// Returns the settings of servers that `[upstream]` does not give them, as TOML.
pub fn own_options(servers: &Servers, out: &Output) -> BTreeMap<&'static str, String> {
    let mut all = BTreeMap::new();
    for (key, default) in DEFAULTS.iter().filter(|(key, _)| *key != NEXT) {
        let default = (*default).to_owned();
        let given = servers.options.get(key).cloned();
        let general = out.get(&format!("upstream.{key}")).cloned();
        let is_idle = servers.is_idle(key);
        let wanted = given.unwrap_or_else(|| default.clone());
        if !is_idle && wanted != general.unwrap_or(default) {
            all.insert(*key, wanted);
        }
    }
    all
}

/// Returns the servers of a rule: a site of their own if they have settings of their own.
pub fn of(servers: &Servers, out: &mut Output) -> Vec<String> {
    let own = own_options(servers, out);
    if own.is_empty() {
        return servers.all.clone();
    }
    let mut table = Table::new("site");
    table.set("upstream", list(&servers.all));
    own.into_iter().for_each(|(key, value)| table.set(key, value));
    if let Some(name) = out.known(&table) {
        return vec![name.trim_matches(['"', '\'']).to_owned()];
    }
    // Such characters would make it a URL.
    let name = servers.name.replace([':', '{', '}', '/'], "-");
    let name = out.unique("site", &format!("servers {name}"));
    table.set("name", text(&name));
    out.push(table);
    vec![name]
}
