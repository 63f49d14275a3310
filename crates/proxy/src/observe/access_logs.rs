//! The access logs of a process: one for all sites, and those that sites have in its place.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::observe::access_log::{AccessLog, Format, Record};

/// Open access logs, all in the same format.
#[derive(Default)]
pub struct AccessLogs {
    /// Each log once, even if several sites write to it.
    logs: Vec<AccessLog>,
    /// Number of the log of all sites without their own.
    general: Option<usize>,
    /// Number of the log of each other site, by its name; `None` if it has none.
    sites: HashMap<String, Option<usize>>,
}

impl AccessLogs {
    /// Opens the logs: that of all sites, and by name those of the sites that have their own or
    /// none. The error names the destination.
    pub fn open(
        general: Option<&Path>,
        sites: &BTreeMap<String, Option<PathBuf>>,
        format: &Arc<Format>,
    ) -> io::Result<AccessLogs> {
        let (mut logs, mut numbers) = (Vec::new(), HashMap::new());
        let mut number_of = |path: &Path| -> io::Result<usize> {
            if let Some(number) = numbers.get(path) {
                return Ok(*number);
            }
            logs.push(AccessLog::open(path, format.clone())?);
            numbers.insert(path.to_owned(), logs.len() - 1);
            Ok(logs.len() - 1)
        };
        let general = general.map(&mut number_of).transpose()?;
        let sites = sites
            .iter()
            .map(|(name, path)| {
                Ok((name.clone(), path.as_deref().map(&mut number_of).transpose()?))
            })
            .collect::<io::Result<_>>()?;
        Ok(AccessLogs { logs, general, sites })
    }

    /// Returns each log once.
    pub fn all(&self) -> &[AccessLog] {
        &self.logs
    }

    /// Returns the format of the lines, unless there is no log.
    pub fn format(&self) -> Option<&Arc<Format>> {
        self.logs.first().map(AccessLog::format)
    }

    /// Writes a request to the log of its site, if there is one.
    pub fn log(&self, record: &Record<'_>) {
        let number = match record.texts.and_then(|texts| texts.site()) {
            Some(site) if !self.sites.is_empty() => {
                let own = std::str::from_utf8(site).ok().and_then(|name| self.sites.get(name));
                own.copied().unwrap_or(self.general)
            }
            _ => self.general,
        };
        if let Some(log) = number.and_then(|number| self.logs.get(number)) {
            log.log(record);
        }
    }
}
