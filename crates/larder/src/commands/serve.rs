//! `larder serve`: from a configuration to a running proxy, and to its orderly end.
//!
//! The order matters. Errors are found before anything is created. Addresses and caches are opened
//! while the process may still be root. Clients are accepted once the cache can serve them, or once
//! its recovery has had its time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cli::outcome::{Failure, answer};
use device::CacheFile;
use net::address::Locals;
use nix::unistd::User;
use proxy::admin::guard::Guard;
use proxy::observe::log_slot::LogSlot;
use proxy::observe::metrics::Metrics;
use proxy::observe::systemd;
use proxy::options::Options;
use proxy::peers::purge_stream::PurgeStream;
use proxy::{
    Act, Action, AdminSetup, CacheSetup, CacheSource, Control, Ended, Facts, ListenSocket,
    ListenerChanges, Network, PendingCache, Recorder, Setup, SpanSink, TokioClock,
};
use serde_json::json;
use store::StoreShare;
use tokio::sync::oneshot;

use crate::caches::cache_metrics::CacheMetrics;
use crate::caches::open_caches;
use crate::caches::open_caches::Cache;
use crate::caches::{store_options, watch};
use crate::commands::demo::Demo;
use crate::commands::first_steps::{FirstSteps, first_steps};
use crate::commands::last_reload::LastReload;
use crate::commands::lists;
use crate::commands::reload::{Reloader, open_access_logs};
use crate::config::configuration::Config;
use crate::config::fleet::FleetSettings;
use crate::config::layers::Layer;
use crate::config::loaded::Loaded;
use crate::config::sizing;
use crate::config::to_options::{
    Surroundings, guard, keyring, keyring_warnings, proxy_options, stream,
};
use crate::config::webroot::OpenRoots;
use crate::process::limits;
use crate::process::limits::Identity;
use crate::process::listen_sockets::{Bound, bind_admin, bind_fleet, bind_listeners};
use crate::process::open_listeners::{OpenListeners, locked};
use crate::process::pid_file::PidFile;
use crate::process::shutdown::Shutdown;
use crate::process::upgrade::Upgrader;
use crate::process::upgrade_protocol::{Inherited, Predecessor};
use crate::process::{self, logging, machine, signals};

/// Interval at which the addresses of this machine are read again.
const ADDRESSES_EVERY: Duration = Duration::from_secs(30);

/// How long clients wait for the caches at an upgrade before they are served without them.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs the proxy until a signal ends it, or until another process has taken over. `demo`: with an
/// origin server.
pub fn run(file: Option<PathBuf>, mut flags: Layer, demo: bool) -> Result<(), Failure> {
    let demo = demo.then(Demo::start).transpose()?;
    if let Some(demo) = &demo {
        demo.add_to(&mut flags)?;
    }
    let found = Predecessor::find().map_err(Failure::usage)?;
    let (predecessor, mut inherited) = found.unzip();
    let mut inherited = match &mut inherited {
        Some(inherited) => std::mem::take(inherited),
        None => Inherited::of_service_manager(),
    };
    match prepare(file, flags, &mut inherited, predecessor.is_some()) {
        Ok(start) => start.serve(predecessor, demo.is_some()),
        Err(failure) => {
            if let Some(predecessor) = predecessor {
                predecessor.refuse(&failure.to_string());
            }
            Err(failure)
        }
    }
}

/// Prepares everything that can fail before clients are accepted. `takes_over`: another process
/// still holds the caches, so they are opened later.
fn prepare(
    file: Option<PathBuf>,
    flags: Layer,
    inherited: &mut Inherited,
    takes_over: bool,
) -> Result<Start, Failure> {
    let loaded = Loaded::load(file.as_deref(), &flags).map_err(Failure::usage)?;
    let config = loaded.config.clone();
    logging::start(&config.log_level);
    let warned = config.warnings();
    let descriptors = warn(&loaded, &warned);
    let identity = limits::identity(config.user.as_deref()).map_err(Failure::usage)?;
    let guard = guard(&config).map_err(Failure::usage)?;
    let fleet = fleet(&config)?;
    let stream = stream(&config).map_err(Failure::usage)?.map(Arc::new);

    let (bound, admin) = bind(&config, fleet.as_ref(), inherited).map_err(Failure::runtime)?;
    let own = bound.iter().chain(&admin).filter_map(|bound| bound.address().ip()).collect();
    let around = Surroundings { own, descriptors, roots: OpenRoots::default() };
    let options = proxy_options(&config, &around).map_err(Failure::usage)?;
    warn_of_certificates(&options);
    let caches = (!takes_over).then(|| open_caches::open_all(&config));
    let caches = caches.transpose().map_err(Failure::runtime)?;

    let pid_file = pid_file(&config, &identity).map_err(Failure::runtime)?;
    change_identity(&identity, &config, caches.as_deref().unwrap_or_default())?;
    let access_log = Arc::new(LogSlot::new(open_access_logs(&config).map_err(Failure::runtime)?));
    let spans = process::spans::sink(&config).map_err(Failure::runtime)?;
    let control = Control::new(options);
    let sockets = Arc::new(Mutex::new(OpenListeners::default()));
    let listener_changes = ListenerChanges::default();
    let upgrader = Arc::new(Upgrader::new(sockets.clone(), control.clone()));
    let last_reload = LastReload::default();
    let facts = facts(file.as_deref(), &sockets, &last_reload);
    let act = start_acting(Reloader {
        file,
        flags,
        loaded,
        warnings: warned,
        around,
        control: control.clone(),
        access_log: access_log.clone(),
        guard: guard.clone(),
        sockets: sockets.clone(),
        upgrader: upgrader.clone(),
        listener_changes: listener_changes.clone(),
        last: last_reload.clone(),
    })?;
    follow_addresses(&control)?;
    Ok(Start {
        metrics: Arc::new(Metrics::new(sizing::workers(config.workers), TokioClock::system())),
        config,
        caches,
        access_log,
        spans,
        control,
        guard,
        act,
        facts,
        last_reload,
        pid_file,
        fleet,
        stream,
        bound,
        admin,
        sockets,
        listener_changes,
        upgrader,
    })
}

/// Logs the warnings about the configuration. Returns the limit of open files, which is raised.
fn warn(loaded: &Loaded, of_config: &[String]) -> u64 {
    let of_machine = machine::disproportions(&loaded.config);
    let (descriptors, refused) = limits::raise_descriptor_limit();
    let warnings = loaded.warnings.iter().chain(of_config).chain(&of_machine).chain(&refused);
    warnings.for_each(|warning| log::warn!("{warning}"));
    descriptors
}

/// Logs the warnings about the certificates.
fn warn_of_certificates(options: &Options) {
    let warnings = options.keyring.as_deref().map(keyring_warnings).unwrap_or_default();
    warnings.iter().for_each(|warning| log::warn!("{warning}"));
}

/// Opens the pid file, if one is configured. The error is a sentence.
fn pid_file(config: &Config, identity: &Identity) -> Result<Option<Arc<PidFile>>, String> {
    let user = match identity {
        Identity::Become(user) => Some(user),
        Identity::Unprivileged | Identity::Root => None,
    };
    let file = config.pid_file.as_deref().map(|path| PidFile::open(path, user));
    Ok(file.transpose()?.map(Arc::new))
}

/// Binds the sockets for clients, then for nodes of the fleet, and that of the admin interface.
fn bind(
    config: &Config,
    fleet: Option<&FleetSettings>,
    inherited: &mut Inherited,
) -> Result<(Vec<Bound>, Option<Bound>), String> {
    let listeners = config.all_listeners();
    let mut bound = bind_listeners(&listeners, config.admin.as_slice(), inherited)?;
    let admin = config.admin.map(|address| bind_admin(address, &listeners, inherited));
    let admin = admin.transpose()?;
    if let Some(fleet) = fleet {
        bound.push(bind_fleet(fleet, &listeners, inherited)?);
    }
    for name in inherited.left() {
        log::warn!("{name} was handed over but is not in the configuration: no longer served");
    }
    Ok((bound, admin))
}

/// Returns the settings of this node in a fleet, if it is in one.
fn fleet(config: &Config) -> Result<Option<FleetSettings>, Failure> {
    let fleet = machine::fleet(config).map_err(|wrong| Failure::usage(wrong.join("\n")))?;
    if let Some(fleet) = &fleet {
        log::info!("{fleet}");
        fleet.warnings.iter().for_each(|warning| log::warn!("{warning}"));
    }
    Ok(fleet)
}

/// Starts to listen to signals, and to look at the files of lists. Returns a function that carries
/// out actions.
fn start_acting(reloader: Reloader) -> Result<Act, Failure> {
    let (control, upgrader) = (reloader.control.clone(), reloader.upgrader.clone());
    let shutdown = Shutdown { control, upgrader };
    let reloader = Arc::new(Mutex::new(reloader));
    let act = act_with(reloader.clone(), shutdown.clone());
    lists::start(reloader).map_err(|error| cannot("start a thread", &error))?;
    listen_to_signals(shutdown, act.clone())?;
    Ok(act)
}

/// Returns a function that carries out actions, for the signals and the admin interface.
fn act_with(reloader: Arc<Mutex<Reloader>>, shutdown: Shutdown) -> Act {
    let upgrader = shutdown.upgrader.clone();
    Arc::new(move |action| match action {
        // A poisoned lock is harmless: an interrupted reload has changed nothing.
        Action::Reload => reloader.lock().unwrap_or_else(PoisonError::into_inner).reload(),
        Action::Upgrade => upgrader.upgrade().map(|pid| json!({ "pid": pid })),
        Action::Drain | Action::Stop => {
            let begun = shutdown.clone();
            let begin = move || match action {
                Action::Stop => begun.cut("stop"),
                _ => begun.begin("drain"),
            };
            thread::Builder::new().spawn(begin).map_err(|error| error.to_string())?;
            let client = shutdown.control.options().client.clone();
            let most = client.drain_delay + client.drain;
            Ok(json!({ "pid": std::process::id(), "seconds": most.as_secs() }))
        }
    })
}

/// Returns a function that returns what `/status` says about the process.
fn facts(file: Option<&Path>, sockets: &Arc<Mutex<OpenListeners>>, last: &LastReload) -> Facts {
    let (file, sockets, last) = (file.map(Path::to_owned), sockets.clone(), last.clone());
    Arc::new(move || {
        json!({
            "configuration": file,
            "listeners": locked(&sockets).describe(),
            "last_reload": last.view(),
        })
    })
}

/// The opened sockets and caches, ready to be served.
struct Start {
    config: Config,
    caches: Option<Vec<Cache>>,
    access_log: Arc<LogSlot>,
    spans: Option<Arc<dyn SpanSink>>,
    control: Control,
    metrics: Arc<Metrics>,
    guard: Guard,
    act: Act,
    facts: Facts,
    last_reload: LastReload,
    pid_file: Option<Arc<PidFile>>,
    fleet: Option<FleetSettings>,
    stream: Option<Arc<PurgeStream>>,
    bound: Vec<Bound>,
    admin: Option<Bound>,
    sockets: Arc<Mutex<OpenListeners>>,
    listener_changes: ListenerChanges,
    upgrader: Arc<Upgrader>,
}

impl Start {
    /// Serves until the workers have drained, and again if the process that was to take over fails.
    fn serve(mut self, mut predecessor: Option<Predecessor>, is_demo: bool) -> Result<(), Failure> {
        let line = ready_line(&self.control.options(), &self.bound, &self.admin, &self.config);
        let front = self.control.options().front.kind();
        let steps = first_steps(front, &self.bound, self.admin.as_ref(), is_demo);
        let ready = Ready { line, steps };
        let (bound, admin) = (std::mem::take(&mut self.bound), self.admin.take());
        *locked(&self.sockets) = OpenListeners::open(self.config.all_listeners(), bound, admin)
            .map_err(Failure::runtime)?;
        if let Some(predecessor) = &mut predecessor {
            predecessor.ready().map_err(Failure::runtime)?;
        }
        let config = Arc::new(self.config.clone());
        let mut source = match (predecessor, self.caches.take()) {
            (Some(predecessor), _) => {
                Source::later(config.clone(), self.metrics.clone(), predecessor)?
            }
            (None, caches) => {
                Source::now(&config, &self.metrics, caches.unwrap_or_default(), false)
            }
        };
        let ended = loop {
            let ended = self.round(source, ready.clone())?;
            let Some(successor) = self.upgrader.successor() else { break ended };
            // Dropping the last handles of the caches releases their locks.
            self.metrics.forget_sources();
            let Err(failed) = self.upgrader.hand_over(successor) else {
                self.close_logs();
                return Ok(());
            };
            let caches = open_caches::open_all(&config).map_err(Failure::runtime)?;
            source = Source::now(&config, &self.metrics, caches, failed.has_served);
        };
        systemd::stopping();
        locked(&self.sockets).remove_all_paths();
        self.pid_file.iter().for_each(|file| file.remove());
        self.close_logs();
        match ended {
            Ended::Saved => log::info!("stopped, everything is saved"),
            Ended::Unsaved => log::error!("stopped; the next start must recover the cache"),
        }
        Ok(())
    }

    /// Writes what the access log and the export of spans hold.
    fn close_logs(&self) {
        self.access_log.close();
        self.spans.iter().for_each(|spans| spans.close());
    }

    fn round(&self, source: Source, ready: Ready) -> Result<Ended, Failure> {
        let Source { cache, news, accepting, held } = source;
        watch::start(&held).map_err(|error| cannot("start a thread", &error))?;
        let watched = Arc::downgrade(&held);
        let upgrader = self.upgrader.clone();
        let released = Box::new(move || {
            for file in &*held.lock().unwrap_or_else(PoisonError::into_inner) {
                if let Err(error) = file.unlock() {
                    log::warn!("{}: cannot unlock: {error}", file.path().display());
                }
            }
            upgrader.release();
        });
        self.metrics.add_source(Box::new(self.last_reload.clone()));
        let announcer = self.announce(news, ready, !self.config.cache.is_empty())?;
        let (listeners, admin) =
            locked(&self.sockets).try_clone().map_err(|error| cannot("serve", &error))?;
        let admin = admin.map(|listener| AdminSetup {
            listener: ListenSocket::Tcp(listener),
            guard: self.guard.clone(),
            metrics: self.metrics.clone(),
            act: self.act.clone(),
            facts: self.facts.clone(),
            trouble: Box::new(move || watch::trouble(&watched)),
        });
        let (clock, control) = (TokioClock::system(), self.control.clone());
        let front = move || control.options().front.kind();
        let (metrics, log) = (self.metrics.clone(), self.access_log.clone());
        let lookup = self.control.options().upstream.lookup.clone();
        let fleet = self.fleet.as_ref().map(|fleet| process::fleet::setup(fleet, lookup, clock));
        let setup = Setup {
            clock,
            network: Network::System,
            control: self.control.clone(),
            listeners,
            listener_changes: self.listener_changes.clone(),
            workers: sizing::workers(self.config.workers),
            observer: Arc::new(
                Recorder::new(front, clock, metrics, log).with_spans(self.spans.clone()),
            ),
            cache,
            fleet,
            stream: self.stream.clone(),
            admin,
            accepting,
            released,
        };
        let ended = proxy::run(setup).map_err(|error| cannot("serve", &error));
        // The thread ends when the store was opened or given up, which has happened by now.
        let _ = announcer.join();
        ended
    }

    /// Logs, on a separate thread, the state of the caches and that clients are served, once the
    /// store is open or has been given up. `has_caches`: caches are configured.
    fn announce(
        &self,
        news: Receiver<News>,
        ready: Ready,
        has_caches: bool,
    ) -> Result<JoinHandle<()>, Failure> {
        let pid_file = self.pid_file.clone();
        let announce = move || {
            // An error means that the process ends before the caches were available.
            let Ok(News { files, opened }) = news.recv() else { return };
            let opened = opened.recv();
            announce_fallbacks(&files);
            match opened {
                Ok(store) => {
                    store_options::describe(&store, &files)
                        .iter()
                        .for_each(|line| log::info!("{line}"));
                }
                Err(_) if !has_caches => log::info!("no cache is configured: nothing is stored"),
                Err(_) => log::error!("no cache can be used: SERVING WITHOUT CACHING"),
            }
            log::info!("{}", ready.line);
            systemd::status(&ready.line);
            systemd::ready();
            pid_file.iter().for_each(|file| file.write());
            match ready.steps {
                FirstSteps::Demo(lines) => {
                    // Standard output may be closed; the demo runs all the same.
                    let _ = answer(&lines);
                }
                FirstSteps::Hint(line) => log::info!("{line}"),
                FirstSteps::None => {}
            }
        };
        let spawned = thread::Builder::new().name("announcer".to_owned()).spawn(announce);
        spawned.map_err(|error| cannot("start a thread", &error))
    }
}

/// The messages once clients are served.
#[derive(Clone)]
struct Ready {
    line: String,
    steps: FirstSteps,
}

/// The caches of one round of serving, on their way to the proxy.
struct Source {
    cache: CacheSource,
    news: Receiver<News>,
    accepting: Box<dyn FnOnce() + Send>,
    held: Held,
}

/// The files of the caches, whose locks will pass to another process.
type Held = Arc<watch::Files>;

fn hold(held: &Held, caches: &[Cache]) {
    let files = caches.iter().filter_map(|cache| cache.file.clone());
    held.lock().unwrap_or_else(PoisonError::into_inner).extend(files);
}

/// The state of the caches that the announcer logs.
struct News {
    files: Vec<Arc<CacheFile>>,
    opened: Receiver<StoreShare>,
}

impl Source {
    /// Returns a source for caches that are already open. `is_doubted`: a process that has failed
    /// may have answered clients without them.
    fn now(config: &Config, metrics: &Metrics, caches: Vec<Cache>, is_doubted: bool) -> Source {
        let (send, news) = mpsc::channel();
        let held = Held::default();
        hold(&held, &caches);
        let setup = cache_setup(config, metrics, &caches, &send);
        let cache = setup.map(|setup| CacheSetup { is_doubted, ..setup }).into();
        Source { cache, news, accepting: Box::new(|| ()), held }
    }

    /// Returns a source for caches that `predecessor` will release.
    fn later(
        config: Arc<Config>,
        metrics: Arc<Metrics>,
        predecessor: Predecessor,
    ) -> Result<Source, Failure> {
        let (send, news) = mpsc::channel();
        let (bring, setup) = oneshot::channel();
        let memory = store_options::options(&config, &[]).memory;
        let cache = CacheSource::Pending(PendingCache { setup, memory, patience: PATIENCE });
        let serving = Arc::new(AtomicBool::new(false));
        let handle = predecessor.try_clone();
        let mut teller =
            handle.map_err(|error| cannot("communicate with the old process", &error))?;
        let accepting = {
            let serving = serving.clone();
            Box::new(move || {
                serving.store(true, Ordering::SeqCst);
                teller.serving();
            })
        };
        let held = Held::default();
        let theirs = held.clone();
        let wait = move || {
            let mut predecessor = predecessor;
            predecessor.await_release();
            let caches = open_caches::open_all(&config);
            let setup = match caches {
                Ok(caches) => {
                    hold(&theirs, &caches);
                    cache_setup(&config, &metrics, &caches, &send)
                }
                Err(why) => {
                    log::error!("{why}");
                    if !serving.load(Ordering::SeqCst) {
                        // The predecessor serves again, with its own caches.
                        std::process::exit(1);
                    }
                    None
                }
            };
            // The proxy may have been told to stop in the meantime.
            let _ = bring.send(setup);
        };
        let spawned = thread::Builder::new().name("caches".to_owned()).spawn(wait);
        spawned.map_err(|error| cannot("start a thread", &error))?;
        Ok(Source { cache, news, accepting, held })
    }
}

/// Returns the caches for the proxy, if any is usable; sends their news to `send`. The metrics
/// include the store from the moment it is open, before clients are served.
fn cache_setup(
    config: &Config,
    metrics: &Metrics,
    caches: &[Cache],
    send: &Sender<News>,
) -> Option<CacheSetup> {
    announce_unusable(caches);
    let files = store_options::usable(caches);
    let unusable = caches.iter().filter(|cache| cache.unusable.is_some());
    let unusable = unusable.map(|cache| (cache.path.clone(), cache.file.clone())).collect();
    let (tell, opened) = mpsc::channel();
    // The announcer waits for this message.
    let _ = send.send(News { files: files.clone(), opened });
    let options = store_options::options(config, &files);
    let shown = Arc::new(OnceLock::new());
    metrics.add_source(Box::new(CacheMetrics {
        share: shown.clone(),
        files: files.clone(),
        unusable,
        memory: config.memory,
        policy: options.policy,
    }));
    if files.is_empty() {
        return None;
    }
    Some(CacheSetup {
        options,
        is_doubted: false,
        devices: store_options::devices(files),
        opened: Box::new(move |share| {
            // Set only once, here. The receiver waits until the value is sent or dropped.
            let _ = shown.set(share.clone());
            let _ = tell.send(share.clone());
        }),
    })
}

fn cannot(what: &str, error: &io::Error) -> Failure {
    Failure::runtime(format!("cannot {what}: {error}"))
}

/// Changes to the user that serves, and warns about what that user cannot do later.
fn change_identity(identity: &Identity, config: &Config, caches: &[Cache]) -> Result<(), Failure> {
    let Identity::Become(user) = identity else { return drop_privileges(identity) };
    hand_to(user, caches).map_err(Failure::runtime)?;
    drop_privileges(identity)?;
    warn_of_closed(user, caches);
    if let Err(why) = keyring(config) {
        let name = &user.name;
        log::warn!("the user {name} cannot read it, so no reload will replace it: {why}");
    }
    Ok(())
}

fn drop_privileges(identity: &Identity) -> Result<(), Failure> {
    match identity {
        Identity::Unprivileged => Ok(()),
        Identity::Root => {
            log::warn!(
                "running as root: give --user NAME to switch to another user after opening \
                        everything"
            );
            Ok(())
        }
        Identity::Become(user) => limits::become_user(user).map_err(Failure::runtime),
    }
}

/// Gives the caches that root created to the serving user: the process that takes over at an
/// upgrade opens them as that user.
fn hand_to(user: &User, caches: &[Cache]) -> Result<(), String> {
    for file in caches.iter().filter_map(|cache| cache.file.as_ref()) {
        let at = file.path().display();
        match file.give_to(user.uid.as_raw(), user.gid.as_raw()) {
            Ok(true) => log::info!("{at}: belongs to the user {} now", user.name),
            Ok(false) => {}
            Err(error) => {
                return Err(format!("{at}: cannot change its owner to {}: {error}", user.name));
            }
        }
    }
    Ok(())
}

/// Logs which caches the user cannot open again.
fn warn_of_closed(user: &User, caches: &[Cache]) {
    for path in caches.iter().filter_map(|cache| cache.file.as_ref()).map(|file| file.path()) {
        if let Err(error) = fs::File::options().read(true).write(true).open(path) {
            let (at, name) = (path.display(), &user.name);
            log::warn!("{at}: the user {name} cannot open it, so no upgrade will: {error}");
        }
    }
}

fn listen_to_signals(shutdown: Shutdown, act: Act) -> Result<(), Failure> {
    // The outcome of each is already logged.
    let reload = act.clone();
    signals::listen(
        move |signal| shutdown.begin(signal),
        move || drop(reload(Action::Reload)),
        move || drop(act(Action::Upgrade)),
    )
    .map_err(|error| cannot("listen to signals", &error))
}

/// Keeps the access rules up to date with the addresses of this machine, which change.
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
        let path = cache.path.display();
        if let (Some(why), None) = (&cache.unusable, &cache.file) {
            log::error!(
                "cache {path}: NOT IN USE: {why}. Its share is served without caching; the next \
                 start tries it again"
            );
        } else if let Some(why) = &cache.unusable {
            log::error!(
                "cache {path}: NOT IN USE: {why}. Nothing in it is changed; its share is served \
                 without caching. To overwrite it: larder format --force {path} --cache-size SIZE"
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
    admin: &Option<Bound>,
    config: &Config,
) -> String {
    let what = &options.front;
    let addresses: Vec<_> = bound.iter().map(Bound::describe).collect();
    let admin = admin.as_ref().map_or("off".to_owned(), |admin| format!("on {}", admin.address()));
    let workers = match sizing::workers(config.workers) {
        1 => "1 worker".to_owned(),
        many => format!("{many} workers"),
    };
    let (addresses, version) = (addresses.join(", "), env!("CARGO_PKG_VERSION"));
    format!("ready: {what} on {addresses}, admin {admin}, {workers}, larder {version}")
}
