//! SIGHUP: reads the configuration again, applies the changes that can be applied, and names the
//! others.

use std::path::PathBuf;
use std::sync::Arc;

use proxy::Control;
use proxy::admin::guard::Guard;
use proxy::observe::access_log::AccessLog;
use proxy::observe::log_slot::LogSlot;
use proxy::observe::systemd;

use crate::config::configuration::Config;
use crate::config::layers::Layer;
use crate::config::loaded::{Changes, Loaded};
use crate::config::to_options::{Surroundings, guard, keyring_warnings, proxy_options};
use crate::process::logging;

/// The state that a reload reads and changes.
pub struct Reloader {
    pub file: Option<PathBuf>,
    /// The flags, which stay the same.
    pub flags: Layer,
    /// The configuration in force.
    pub loaded: Loaded,
    /// The other inputs of the proxy's options.
    pub around: Surroundings,
    /// The handle that receives the new options.
    pub control: Control,
    pub access_log: Arc<LogSlot>,
    /// The guard of the admin interface.
    pub guard: Guard,
}

impl Reloader {
    /// Reloads. Errors are logged, and then only the log files have changed. Returns what changed
    /// and what waits for a restart, or the errors.
    pub fn reload(&mut self) -> Result<serde_json::Value, String> {
        systemd::reloading();
        self.access_log.reopen();
        let taken = self.take_over();
        match &taken {
            Ok(changes) => announce(changes),
            Err(problems) => {
                for line in problems.lines() {
                    log::error!("reload: {line}");
                }
                log::error!("reload: the configuration is unchanged");
            }
        }
        systemd::ready();
        taken.map(|Changes { applied, waiting, .. }| {
            serde_json::json!({"applied": applied, "waiting": waiting})
        })
    }

    fn take_over(&mut self) -> Result<Changes, String> {
        let new = Loaded::load(self.file.as_deref(), &self.flags)?;
        // Work on a copy: if the options cannot be made, nothing may change.
        let mut loaded = self.loaded.clone();
        let changes = loaded.reload(&new);
        let options = proxy_options(&loaded.config, &self.around)?;
        let guard = guard(&loaded.config)?;
        let is_logged_otherwise = |key: &&str| ["access-log", "log-format"].contains(key);
        let log = match changes.applied.iter().any(is_logged_otherwise) {
            true => Some(open_access_log(&loaded.config)?),
            false => None,
        };
        // Nothing fails from here on.
        if let Some(keyring) = &options.keyring {
            let count = keyring.certificates().len();
            log::info!("reload: certificates read: {count}");
            keyring_warnings(keyring).iter().for_each(|warning| log::warn!("{warning}"));
        }
        self.control.reload(options);
        self.guard.adopt(&guard);
        if let Some(address) = loaded.config.admin {
            guard.warn_if_open(address);
        }
        if let Some(log) = log {
            self.access_log.replace(log);
        }
        logging::set_level(&loaded.config.log_level);
        self.loaded = loaded;
        Ok(changes)
    }
}

/// Opens the access log, if there is one. The error is a sentence.
pub fn open_access_log(config: &Config) -> Result<Option<AccessLog>, String> {
    let Some(path) = &config.access_log else { return Ok(None) };
    let format = config.log_format.parse().map_err(|why| format!("log-format: {why}"))?;
    let log = AccessLog::open(path, format);
    log.map(Some).map_err(|error| {
        let who = config.user.as_ref().map(|user| format!(" (opened as the user {user})"));
        format!("{error}{}", who.unwrap_or_default())
    })
}

fn announce(changes: &Changes) {
    match changes.applied.as_slice() {
        [] => log::info!("reload: no change takes effect"),
        keys => {
            let told = keys.iter().map(|key| match *key {
                "site" => format!("site ({})", changes.sites),
                key => key.to_owned(),
            });
            log::info!("reload: now in effect: {}", told.collect::<Vec<_>>().join(", "));
        }
    }
    if !changes.waiting.is_empty() {
        log::warn!("reload: changed, but in effect only after a restart: {}", {
            changes.waiting.join(", ")
        });
    }
}
