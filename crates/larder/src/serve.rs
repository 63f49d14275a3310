//! `larder serve`: from a configuration to a running proxy, and to its orderly end.
//!
//! The order matters: what can be wrong is found before anything is created; ports and caches are
//! opened while the process may still be root; clients are let in when the cache can answer.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use proxy::access_log::{AccessLog, Format};
use proxy::address::Locals;
use proxy::options::{Front, Options};
use proxy::{Control, Setup};

use crate::config::{Config, Layer, LogFormat};
use crate::listeners::{Bound, bind};
use crate::messages::Failure;
use crate::observe::Observing;
use crate::process::{self, Identity};
use crate::reload::Reloader;
use crate::translate::{Surroundings, proxy_options};
use crate::{check, messages, signals, sizing};

/// How often the addresses of this machine are read again.
const ADDRESSES_EVERY: Duration = Duration::from_secs(30);

/// Runs the proxy until a signal ends it.
pub fn run(file: Option<PathBuf>, flags: Layer) -> Result<(), Failure> {
    let loaded = check::load(file.as_deref(), &flags)?;
    let config = loaded.config.clone();
    messages::start(&config.log_level);
    let (descriptors, refused) = process::raise_descriptor_limit();
    refused.iter().for_each(|why| log::warn!("{why}"));
    let identity = process::identity(config.user.as_deref()).map_err(Failure::usage)?;

    let bound = bind_all(&config.listen).map_err(Failure::runtime)?;
    let admin = config.admin.map(bind).transpose().map_err(Failure::runtime)?;
    let own = bound.iter().chain(&admin).map(Bound::address).collect();
    let around = Surroundings { own, descriptors };
    let options = proxy_options(&config, &around).map_err(Failure::usage)?;

    drop_privileges(&identity)?;
    let access_log = open_access_log(&config)?;
    let control = Control::new(options);
    let reloader = Reloader {
        file,
        flags,
        loaded,
        around,
        control: control.clone(),
        access_log: access_log.clone(),
    };
    listen_to_signals(&control, reloader)?;
    follow_addresses(&control).map_err(Failure::runtime)?;

    let addresses: Vec<SocketAddr> = bound.iter().map(Bound::address).collect();
    let listeners: Result<_, _> = bound.into_iter().map(Bound::listen).collect();
    let workers = sizing::workers(config.workers);
    announce(&control.options(), &addresses, workers);
    let ended = proxy::run(Setup {
        control,
        listeners: listeners.map_err(Failure::runtime)?,
        workers,
        observer: Arc::new(Observing { access_log: access_log.clone() }),
        cache: None,
        admin: None,
    });
    if let Some(log) = access_log {
        log.close();
    }
    ended.map_err(|error| Failure::runtime(format!("cannot serve: {error}")))?;
    log::info!("stopped");
    Ok(())
}

fn bind_all(addresses: &[SocketAddr]) -> Result<Vec<Bound>, String> {
    addresses.iter().map(|address| bind(*address)).collect()
}

fn drop_privileges(identity: &Identity) -> Result<(), Failure> {
    match identity {
        Identity::Unprivileged => Ok(()),
        Identity::Root => {
            log::warn!("running as root: give --user NAME to become another user once all is open");
            Ok(())
        }
        Identity::Become(user) => process::become_user(user).map_err(Failure::runtime),
    }
}

fn open_access_log(config: &Config) -> Result<Option<Arc<AccessLog>>, Failure> {
    let Some(path) = &config.access_log else { return Ok(None) };
    let format = match config.log_format {
        LogFormat::Combined => Format::Combined,
        LogFormat::Squid => Format::Squid,
        LogFormat::Json => Format::Json,
    };
    let log = AccessLog::open(path, format);
    log.map(|log| Some(Arc::new(log)))
        .map_err(|error| Failure::runtime(format!("access log: {error}")))
}

fn listen_to_signals(control: &Control, mut reloader: Reloader) -> Result<(), Failure> {
    let control = control.clone();
    let stop = move |signal: &str| {
        let drain = control.options().client.drain;
        log::info!("{signal}: stopping, running requests have {} to end", {
            crate::units::duration(drain)
        });
        control.drain();
    };
    signals::listen(stop, move || reloader.reload())
        .map_err(|error| Failure::runtime(format!("cannot listen to signals: {error}")))
}

/// Keeps the access rules informed of this machine's addresses, which come and go.
fn follow_addresses(control: &Control) -> Result<(), String> {
    let control = control.clone();
    let follow = move || {
        loop {
            thread::sleep(ADDRESSES_EVERY);
            match Locals::of_this_machine() {
                Ok(locals) => control.options().access.set_locals(locals),
                Err(error) => log::warn!("cannot list the addresses of this machine: {error}"),
            }
        }
    };
    let spawned = thread::Builder::new().name("addresses".to_owned()).spawn(follow);
    spawned.map(|_| ()).map_err(|error| format!("cannot start a thread: {error}"))
}

fn announce(options: &Options, addresses: &[SocketAddr], workers: usize) {
    let what = match &options.front {
        Front::Forward => "forward proxy".to_owned(),
        Front::Reverse(sites) => {
            let names: Vec<_> = sites
                .iter()
                .map(|s| format!("{} → {}:{}", s.name, s.upstream_host, s.upstream_port))
                .collect();
            format!("reverse proxy ({})", names.join(", "))
        }
    };
    let addresses: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
    log::info!("ready: {what} on {}, {workers} workers", addresses.join(", "));
}
