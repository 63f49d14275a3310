//! SIGHUP: reads the configuration again, applies the changes that can be applied, and names the
//! others.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use proxy::admin::guard::Guard;
use proxy::observe::access_logs::AccessLogs;
use proxy::observe::log_slot::LogSlot;
use proxy::observe::systemd;
use proxy::options::Options;
use proxy::{Control, ListenerChange, ListenerChanges};

use crate::commands::last_reload::LastReload;
use crate::config::configuration::Config;
use crate::config::layers::Layer;
use crate::config::loaded::{Changes, Loaded};
use crate::config::sources::Stamp;
use crate::config::to_options::{Surroundings, guard, keyring_warnings, proxy_options, with_lists};
use crate::process::logging;
use crate::process::open_listeners::{OpenListener, OpenListeners, handles, locked};
use crate::process::upgrade::Upgrader;

/// The state that a reload reads and changes.
pub struct Reloader {
    pub file: Option<PathBuf>,
    /// The flags, which stay the same.
    pub flags: Layer,
    /// The configuration in force.
    pub loaded: Loaded,
    /// Its warnings, which are not repeated.
    pub warnings: Vec<String>,
    /// The other inputs of the proxy's options.
    pub around: Surroundings,
    /// The handle that receives the new options.
    pub control: Control,
    pub access_log: Arc<LogSlot>,
    /// The guard of the admin interface.
    pub guard: Guard,
    pub sockets: Arc<Mutex<OpenListeners>>,
    pub listener_changes: ListenerChanges,
    pub upgrader: Arc<Upgrader>,
    /// Where each reload is noted.
    pub last: LastReload,
}

impl Reloader {
    /// Reloads. Errors are logged, and then only the log files have changed. Returns what changed
    /// and what waits for a restart, or the errors.
    pub fn reload(&mut self) -> Result<serde_json::Value, String> {
        systemd::reloading();
        self.access_log.reopen();
        let taken = self.upgrader.check_reload().and_then(|()| self.take_over());
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
        self.last.note(taken.as_ref().err().cloned());
        taken.map(|Changes { applied, waiting, .. }| {
            serde_json::json!({"applied": applied, "waiting": waiting})
        })
    }

    /// Reads the lists of rules again. Returns false, and changes nothing, if a file is no longer
    /// in the state that `states` has.
    pub fn reload_lists(&mut self, states: &BTreeMap<PathBuf, Stamp>) -> Result<bool, String> {
        if self.upgrader.check_reload().is_err() {
            return Ok(false);
        }
        let read = self.loaded.with_new_lists(&self.flags);
        if states.iter().any(|(path, state)| Stamp::at(path) != *state) {
            return Ok(false);
        }
        let new = read?;
        let options = with_lists(&new.config, &self.control.options(), &self.around)?;
        self.control.reload(options);
        self.loaded.adopt_lists(new);
        Ok(true)
    }

    fn take_over(&mut self) -> Result<Changes, String> {
        let new = Loaded::load(self.file.as_deref(), &self.flags)?;
        // Work on a copy: if anything fails, nothing may change.
        let mut loaded = self.loaded.clone();
        let changes = loaded.reload(&new);
        let mut sockets = locked(&self.sockets);
        let listeners = match changes.have(&["listen", "listener"]) {
            true => {
                let others = loaded.config.admin.as_slice();
                Some(sockets.changed(&loaded.config.all_listeners(), others)?)
            }
            false => None,
        };
        let prepared = self.prepare(&loaded.config, &changes, listeners.as_deref(), &sockets);
        let prepared = prepared.inspect_err(|_| {
            sockets.discard(listeners.as_deref().unwrap_or_default());
        })?;
        // Nothing fails from here on.
        if let Some(listeners) = listeners {
            self.around.own = sockets.own(&listeners);
            sockets.take(listeners);
            log::info!("reload: listening on {}", sockets.describe());
        }
        drop(sockets);
        self.apply(prepared, &loaded.config);
        self.loaded = loaded;
        Ok(changes)
    }

    /// Opens and reads everything that a changed configuration needs. The error is a sentence.
    fn prepare(
        &self,
        config: &Config,
        changes: &Changes,
        listeners: Option<&[OpenListener]>,
        sockets: &OpenListeners,
    ) -> Result<Prepared, String> {
        let mut around = self.around.clone();
        let mut change = None;
        if let Some(listeners) = listeners {
            around.own = sockets.own(listeners);
            let handles = handles(listeners);
            let changed = handles.and_then(|handles| self.listener_changes.prepare(&handles));
            change = Some(changed.map_err(|error| format!("listener: {error}"))?);
        }
        let options = proxy_options(config, &around)?;
        let guard = guard(config)?;
        let is_other = changes.have(&["access-log", "log-format"])
            || config.site_logs() != self.loaded.config.site_logs();
        let log = is_other.then(|| open_access_logs(config)).transpose()?;
        Ok(Prepared { options, guard, log, listeners: change })
    }

    fn apply(&mut self, prepared: Prepared, config: &Config) {
        let Prepared { options, guard, log, listeners } = prepared;
        if let Some(keyring) = &options.keyring {
            let count = keyring.certificates().len();
            log::info!("reload: certificates read: {count}");
            keyring_warnings(keyring).iter().for_each(|warning| log::warn!("{warning}"));
        }
        self.control.reload(options);
        if let Some(listeners) = listeners {
            listeners.apply();
        }
        self.guard.adopt(&guard);
        if let Some(address) = config.admin {
            guard.warn_if_open(address);
        }
        if let Some(log) = log {
            self.access_log.replace(log);
        }
        logging::set_level(&config.log_level);
        let warnings = config.warnings();
        let new = warnings.iter().filter(|warning| !self.warnings.contains(warning));
        new.for_each(|warning| log::warn!("{warning}"));
        self.warnings = warnings;
    }
}

/// Everything that a reload has opened and read.
struct Prepared {
    options: Options,
    guard: Guard,
    /// The access logs, if they change.
    log: Option<AccessLogs>,
    listeners: Option<ListenerChange>,
}

/// Opens the access logs. The error is a sentence.
pub fn open_access_logs(config: &Config) -> Result<AccessLogs, String> {
    let format = Arc::new(config.log_format.clone());
    let logs = AccessLogs::open(config.access_log.as_deref(), &config.site_logs(), &format);
    logs.map_err(|error| {
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
