//! The differences between the sites of two configurations, for the log.

use std::collections::BTreeMap;
use std::fmt;

use crate::config::configuration::Site;

/// Number of names that a message lists.
const NAMED: usize = 8;

/// The names of sites that were added, changed and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteChanges {
    pub added: Vec<String>,
    pub changed: Vec<String>,
    pub removed: Vec<String>,
}

impl SiteChanges {
    /// Compares the sites by their names.
    pub fn of(old: &[Site], new: &[Site]) -> SiteChanges {
        let mut before: BTreeMap<&str, &Site> = by_name(old).collect();
        let mut changes = SiteChanges::default();
        for (name, site) in by_name(new) {
            match before.remove(name) {
                None => changes.added.push(name.to_owned()),
                Some(old) if old != site => changes.changed.push(name.to_owned()),
                Some(_) => {}
            }
        }
        changes.removed = before.into_keys().map(str::to_owned).collect();
        changes
    }
}

fn by_name(sites: &[Site]) -> impl Iterator<Item = (&str, &Site)> {
    sites.iter().map(|site| (site.called().unwrap_or_default(), site))
}

impl fmt::Display for SiteChanges {
    /// Writes `added a, b; removed c`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts =
            [("added", &self.added), ("changed", &self.changed), ("removed", &self.removed)];
        let mut is_first = true;
        for (what, names) in parts.into_iter().filter(|(_, names)| !names.is_empty()) {
            let separator = if std::mem::take(&mut is_first) { "" } else { "; " };
            write!(f, "{separator}{what} {}", names[..names.len().min(NAMED)].join(", "))?;
            if names.len() > NAMED {
                write!(f, " and {} more", names.len() - NAMED)?;
            }
        }
        if is_first { f.write_str("in another order") } else { Ok(()) }
    }
}
