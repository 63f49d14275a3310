//! `larder serve`: from a configuration to a running proxy, and to its orderly end.
//!
//! The order matters. What can be wrong is found before anything is created; addresses and caches
//! are opened while the process may still be root; clients are let in when the cache can answer,
//! or when it has had its time to recover.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use device::CacheFile;
use proxy::access_log::{AccessLog, Format};
use proxy::address::Locals;
use proxy::admin::Guard;
use proxy::metrics::Metrics;
use proxy::options::{Front, Options, Site};
use proxy::{AdminSetup, CacheSetup, Control, Ended, Ledger, Setup, access, notify};
use store::StoreShare;

use crate::caches::{self, Cache};
use crate::config::{Config, Layer, LogFormat};
use crate::figures::Figures;
use crate::listeners::{Bound, bind_admin, bind_listeners};
use crate::messages::Failure;
use crate::process::{self, Identity};
use crate::reload::Reloader;
use crate::translate::{Surroundings, keyring, keyring_warnings, proxy_options};
use crate::{check, messages, signals, sizing, storage, units};

/// How often the addresses of this machine are read again.
const ADDRESSES_EVERY: Duration = Duration::from_secs(30);

/// Runs the proxy until a signal ends it.
pub fn run(file: Option<PathBuf>, flags: Layer) -> Result<(), Failure> {
    let loaded = check::load(file.as_deref(), &flags)?;
    let config = loaded.config.clone();
    messages::start(&config.log_level);
    config.warnings().iter().for_each(|warning| log::warn!("{warning}"));
    let (descriptors, refused) = process::raise_descriptor_limit();
    refused.iter().for_each(|why| log::warn!("{why}"));
    let identity = process::identity(config.user.as_deref()).map_err(Failure::usage)?;
    let guard = guard(&config).map_err(Failure::usage)?;

    let listeners = config.all_listeners();
    let bound = bind_listeners(&listeners, config.admin.as_slice()).map_err(Failure::runtime)?;
    let admin = config.admin.map(|address| bind_admin(address, &listeners));
    let admin = admin.transpose().map_err(Failure::runtime)?;
    let own = bound.iter().chain(&admin).filter_map(|bound| bound.address().ip()).collect();
    let around = Surroundings { own, descriptors };
    let options = proxy_options(&config, &around).map_err(Failure::usage)?;
    let warnings = options.keyring.as_deref().map(keyring_warnings).unwrap_or_default();
    warnings.iter().for_each(|warning| log::warn!("{warning}"));
    let caches = caches::open_all(&config).map_err(Failure::runtime)?;

    drop_privileges(&identity)?;
    if let (Identity::Become(user), Err(why)) = (&identity, keyring(&config)) {
        let name = &user.name;
        log::warn!("the user {name} cannot read it, so no reload will replace it: {why}");
    }
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
    follow_addresses(&control)?;

    let metrics = Arc::new(Metrics::new(sizing::workers(config.workers)));
    let admin = admin.map(|admin| admin_setup(admin, guard, &metrics)).transpose()?;
    let start = Start { config, caches, access_log, control, metrics };
    start.serve(bound, admin)
}

/// What was opened, on its way to being served.
struct Start {
    config: Config,
    caches: Vec<Cache>,
    access_log: Option<Arc<AccessLog>>,
    control: Control,
    metrics: Arc<Metrics>,
}

impl Start {
    /// Serves until the workers have drained.
    fn serve(self, bound: Vec<Bound>, admin: Option<AdminSetup>) -> Result<(), Failure> {
        let ready = ready_line(&self.control.options(), &bound, &admin, &self.config);
        let (cache, opened) = self.cache_setup();
        announce_unusable(&self.caches);
        let announcer = self.announce(opened, ready)?;
        let front = match self.control.options().front {
            Front::Forward => access::Front::Forward,
            Front::Reverse(_) => access::Front::Reverse,
        };
        let log = self.access_log.clone();
        let paths: Vec<PathBuf> = bound.iter().filter_map(Bound::path).collect();
        let listeners: Result<_, _> = bound.into_iter().map(Bound::listen).collect();
        let setup = Setup {
            control: self.control,
            listeners: listeners.map_err(Failure::runtime)?,
            workers: sizing::workers(self.config.workers),
            observer: Arc::new(Ledger::new(front, self.metrics, log.clone())),
            cache: cache.into(),
            admin,
            accepting: Box::new(|| ()),
        };
        let ended = proxy::run(setup).map_err(|error| cannot("serve", &error));
        notify::stopping();
        for path in paths {
            // One that stays is no harm: the next start removes it.
            let _ = fs::remove_file(path);
        }
        // It ends when the store was opened or given up, which is over by now.
        let _ = announcer.join();
        if let Some(log) = log {
            log.close();
        }
        match ended? {
            Ended::Saved => log::info!("stopped, everything is saved"),
            Ended::Unsaved => log::error!("stopped; the next start has to recover the cache"),
        }
        Ok(())
    }

    /// The cache for the proxy, if one can be used, and where its store comes when it is open.
    fn cache_setup(&self) -> (Option<CacheSetup>, Receiver<StoreShare>) {
        let (send, opened) = mpsc::channel();
        let files = storage::usable(&self.caches);
        if files.is_empty() {
            return (None, opened);
        }
        let setup = CacheSetup {
            options: storage::options(&self.config, &files),
            devices: storage::devices(files),
            opened: Box::new(move |share| {
                // The receiver waits until this is sent or dropped.
                let _ = send.send(share.clone());
            }),
        };
        (Some(setup), opened)
    }

    /// Says, in a thread of its own, how the caches are and that clients are served, once the
    /// store is open or has been given up.
    fn announce(
        &self,
        opened: Receiver<StoreShare>,
        ready: String,
    ) -> Result<JoinHandle<()>, Failure> {
        let share = Arc::new(OnceLock::new());
        let files = storage::usable(&self.caches);
        let unusable = self.caches.iter().filter(|cache| cache.unusable.is_some());
        self.metrics.add_source(Box::new(Figures {
            share: share.clone(),
            files: files.clone(),
            unusable: unusable.map(|cache| cache.file.clone()).collect(),
            memory: self.config.memory,
            policy: storage::options(&self.config, &files).policy,
        }));
        let announce = move || {
            let opened = opened.recv();
            announce_fallbacks(&files);
            match opened {
                Ok(store) => {
                    storage::describe(&store, &files).iter().for_each(|line| log::info!("{line}"));
                    // Set once, here.
                    let _ = share.set(store);
                }
                Err(_) => log::error!("no cache can be used: SERVING WITHOUT CACHING"),
            }
            log::info!("{ready}");
            notify::status(&ready);
            notify::ready();
        };
        let spawned = thread::Builder::new().name("announcer".to_owned()).spawn(announce);
        spawned.map_err(|error| cannot("start a thread", &error))
    }
}

fn admin_setup(bound: Bound, guard: Guard, metrics: &Arc<Metrics>) -> Result<AdminSetup, Failure> {
    let listener = bound.listen_plain().map_err(Failure::runtime)?;
    Ok(AdminSetup { listener, guard, metrics: metrics.clone() })
}

fn cannot(what: &str, error: &io::Error) -> Failure {
    Failure::runtime(format!("cannot {what}: {error}"))
}

/// Who may use the admin interface.
fn guard(config: &Config) -> Result<Guard, String> {
    let token = match (&config.admin_token, &config.admin_token_file) {
        (Some(token), _) => Some(token.clone()),
        (None, Some(path)) => Some(read_token(path)?),
        (None, None) => None,
    };
    Ok(Guard::new(config.admin_names.clone(), token))
}

fn read_token(path: &Path) -> Result<String, String> {
    let at = path.display();
    let text =
        fs::read_to_string(path).map_err(|error| format!("admin-token-file: {at}: {error}"))?;
    match text.trim() {
        "" => Err(format!("admin-token-file: {at}: expected a token, the file is empty")),
        token => Ok(token.to_owned()),
    }
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
    log.map(|log| Some(Arc::new(log))).map_err(|error| {
        let who = config.user.as_ref().map(|user| format!(" (opened as the user {user})"));
        Failure::runtime(format!("{error}{}", who.unwrap_or_default()))
    })
}

fn listen_to_signals(control: &Control, mut reloader: Reloader) -> Result<(), Failure> {
    let control = control.clone();
    let stop = move |signal: &str| {
        let drain = units::duration(control.options().client.drain);
        log::info!("{signal}: stopping; what runs has {drain} to end; once more ends at once");
        control.drain();
    };
    signals::listen(stop, move || reloader.reload())
        .map_err(|error| cannot("listen to signals", &error))
}

/// Keeps the access rules informed of this machine's addresses, which come and go.
fn follow_addresses(control: &Control) -> Result<(), Failure> {
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
    spawned.map(|_| ()).map_err(|error| cannot("start a thread", &error))
}

fn announce_unusable(caches: &[Cache]) {
    for cache in caches {
        if let Some(why) = &cache.unusable {
            let path = cache.file.path().display();
            log::error!(
                "cache {path}: NOT IN USE: {why}. Nothing in it is changed; its share is served \
                 without caching. To give up what is there: larder format --force {path} \
                 --cache-size SIZE"
            );
        }
    }
}

fn announce_fallbacks(files: &[Arc<CacheFile>]) {
    for file in files {
        for fallback in file.fallbacks() {
            log::warn!("cache {}: {fallback}", file.path().display());
        }
    }
}

fn ready_line(
    options: &Options,
    bound: &[Bound],
    admin: &Option<AdminSetup>,
    config: &Config,
) -> String {
    let what = match &options.front {
        Front::Forward => "forward proxy".to_owned(),
        Front::Reverse(sites) => {
            let servers = |site: &Site| -> Vec<String> {
                site.upstream.servers().iter().map(|server| server.origin.to_string()).collect()
            };
            let names: Vec<_> =
                sites.iter().map(|s| format!("{} to {}", s.name, servers(s).join(", "))).collect();
            format!("reverse proxy ({})", names.join(", "))
        }
    };
    let addresses: Vec<_> = bound.iter().map(Bound::describe).collect();
    let admin = admin.as_ref().and_then(|admin| admin.listener.local_addr().ok());
    let admin = admin.map_or("off".to_owned(), |address| format!("on {address}"));
    let workers = match sizing::workers(config.workers) {
        1 => "1 worker".to_owned(),
        many => format!("{many} workers"),
    };
    let (addresses, version) = (addresses.join(", "), env!("CARGO_PKG_VERSION"));
    format!("ready: {what} on {addresses}, admin {admin}, {workers}, larder {version}")
}
