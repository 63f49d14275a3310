//! SIGHUP: reads the configuration again, applies the changes that can be applied, and names the
//! others.

use std::path::PathBuf;
use std::sync::Arc;

use proxy::Control;
use proxy::observe::access_log::AccessLog;
use proxy::observe::systemd;

use crate::config::layers::Layer;
use crate::config::loaded::{Changes, Loaded};
use crate::config::to_options::{Surroundings, keyring_warnings, proxy_options};
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
    pub access_log: Option<Arc<AccessLog>>,
}

impl Reloader {
    /// Reloads. Errors are logged, and then only the log files have changed. Returns what changed
    /// and what waits for a restart, or the errors.
    pub fn reload(&mut self) -> Result<serde_json::Value, String> {
        systemd::reloading();
        if let Some(log) = &self.access_log {
            log.reopen();
        }
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
        taken.map(|Changes { applied, waiting }| {
            serde_json::json!({"applied": applied, "waiting": waiting})
        })
    }

    fn take_over(&mut self) -> Result<Changes, String> {
        let new = Loaded::load(self.file.as_deref(), &self.flags)?;
        // Work on a copy: if the options cannot be made, nothing may change.
        let mut loaded = self.loaded.clone();
        let changes = loaded.reload(&new);
        let options = proxy_options(&loaded.config, &self.around)?;
        if let Some(keyring) = &options.keyring {
            let count = keyring.certificates().len();
            log::info!("reload: certificates read: {count}");
            keyring_warnings(keyring).iter().for_each(|warning| log::warn!("{warning}"));
        }
        self.control.reload(options);
        logging::set_level(&loaded.config.log_level);
        self.loaded = loaded;
        Ok(changes)
    }
}

fn announce(changes: &Changes) {
    match changes.applied.as_slice() {
        [] => log::info!("reload: no change takes effect"),
        keys => log::info!("reload: now in effect: {}", keys.join(", ")),
    }
    if !changes.waiting.is_empty() {
        log::warn!("reload: changed, but in effect only after a restart: {}", {
            changes.waiting.join(", ")
        });
    }
}
