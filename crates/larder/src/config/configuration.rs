//! The configuration as the rest of the program uses it: typed, complete, consistent.
//!
//! Most of it is options of the crates below, which the declarations of the settings set directly
//! ([`crate::config::settings`]); options that depend on several settings, on the machine or on
//! files are made of it by [`crate::config::to_options`].

use std::net::SocketAddr;
use std::path::PathBuf;

use http::HeaderName;
use ipnet::IpNet;
use message::forwarded::Forwarded;
use message::pseudonym::Pseudonym;
use net::certificate_store::TlsOptions;
use proxy::client::http2_options::Http2Options;
use proxy::client::limits::{ClientLimits, TunnelLimits};
use proxy::observe::access_log::Format;
use proxy::options::fill::FillOptions;
use proxy::origin::path_prefix::PathPrefix;
use proxy::rules::access::{PortRange, Rule};
use proxy::rules::aliases::Aliases;
use proxy::rules::purging::Purging;
use semantics::ClientReload;
use store::{FormatOptions, LayoutName};
use upstream::settings::limits::UpstreamLimits;

use crate::config::fleet::FleetConfig;
use crate::config::listen_addr::ListenAddr;
use crate::config::listener::{Certificate, Listener};
use crate::config::request_rule::RequestRule;
use crate::config::setting::OwnKey;
use crate::config::sharing::SharingChoices;
use crate::config::sizing;
use crate::config::upstreams::Manner;
use crate::config::webroot::FileManner;

/// All settings of `larder serve`, each described in its declaration.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Config {
    pub listen: Vec<ListenAddr>,
    pub reverse: Option<Vec<String>>,
    /// A directory of files that is served instead.
    pub root: Option<PathBuf>,
    /// The choices about files, of all sites.
    pub files: FileManner,
    /// Whether the server of `reverse` is sent the client's `Host`.
    pub pass_host: bool,
    pub cache: Vec<PathBuf>,
    pub cache_size: Option<u64>,
    pub memory: u64,
    /// `memory` was not given; it follows from the machine.
    pub memory_is_auto: bool,
    pub preset: &'static str,
    pub layout: Option<LayoutName>,
    pub admin: Option<SocketAddr>,
    pub admin_names: Vec<String>,
    pub admin_token: Option<String>,
    pub admin_token_file: Option<PathBuf>,
    pub access_log: Option<PathBuf>,
    pub log_format: Format,
    pub log_level: String,
    pub workers: Option<usize>,
    pub allow: Vec<IpNet>,
    pub user: Option<String>,
    pub connect_ports: Vec<PortRange>,
    pub pseudonym: Pseudonym,
    /// The preset's, with what `[store]` says; memory and events are added when it is opened.
    pub store: store::Options,
    /// The preset's, with what is said; see [`Config::format_options`].
    pub format: FormatOptions,
    /// With the targets as they were written, `auto` included; what follows from the way of
    /// sharing is in `sharing`.
    pub semantics: semantics::Settings,
    pub sharing: SharingChoices,
    /// `None`: as the kind of proxy has it.
    pub client_reload: Option<ClientReload>,
    /// The fields to add are in `forwarded_add`.
    pub forwarded: Forwarded,
    pub forwarded_add: Vec<String>,
    /// The number of connections is in `connections`, the buffers are in `client_buffers`.
    pub client: ClientLimits,
    pub connections: Option<usize>,
    /// `None`: by the memory.
    pub client_buffers: Option<u64>,
    pub tunnels: TunnelLimits,
    pub tls: TlsOptions,
    pub http2: Http2Options,
    /// The limits of all sites together; those of single servers are in `manner`.
    pub upstream: UpstreamLimits,
    pub resolver: Resolver,
    pub dns_servers: Option<Vec<SocketAddr>>,
    pub manner: Manner,
    pub fill: FillOptions,
    /// Whether tags are passed on is in `pass_tags`, the secret in the fields after it.
    pub purging: Purging,
    pub purge_secret: Option<String>,
    pub purge_secret_file: Option<PathBuf>,
    pub purge_secret_field: Option<HeaderName>,
    pub pass_tags: Option<bool>,
    pub fleet: FleetConfig,
    pub sites: Vec<Site>,
    pub access: Vec<Rule>,
    pub rules: Vec<RequestRule>,
    pub listeners: Vec<Listener>,
    pub certificates: Vec<Certificate>,
}

/// The resolver of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolver {
    /// The system, by all that its `nsswitch.conf` names. It tells no lifetimes.
    #[default]
    System,
    /// Name servers, asked by DNS.
    Dns,
}

/// One `[[site]]` of a reverse proxy.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Site {
    pub name: Option<String>,
    pub hosts: Vec<String>,
    pub paths: Vec<PathPrefix>,
    pub upstream: Vec<String>,
    pub root: Option<PathBuf>,
    /// What `paths` says is no part of the path below `root`.
    pub strip_prefix: bool,
    pub pass_host: bool,
    pub key_host: Option<KeyHost>,
    /// The keys in which it differs from `[upstream]`.
    pub own: Vec<OwnKey<Manner>>,
    /// The keys in which it differs from `[files]`.
    pub own_files: Vec<OwnKey<FileManner>>,
}

/// The name of the site that `reverse` or `static` makes.
pub const DEFAULT_SITE: &str = "default";

impl Site {
    /// Returns whether its hosts are one to the cache. Those that nobody has listed are not, but
    /// for files, which are the same for all.
    pub fn is_one(&self) -> bool {
        let is_one = !self.hosts.is_empty() || self.root.is_some();
        self.key_host.map_or(is_one, |known| known == KeyHost::Site)
    }

    /// Returns the names of its hosts to the cache, where our listeners have these `ports`.
    pub fn aliases(&self, ports: &[u16]) -> Aliases {
        match self.hosts.is_empty() && self.is_one() {
            true => Aliases::of_every_host(ports),
            false => {
                let aliases = Aliases::new(&self.hosts, self.is_one(), ports);
                if self.root.is_some() { aliases.with_every_port() } else { aliases }
            }
        }
    }

    /// Returns the settings of its origin servers, where `general` are those of `[upstream]`.
    pub fn manner(&self, general: &Manner) -> Manner {
        OwnKey::lay_over(&self.own, general.clone())
    }

    /// Returns the choices about its files, where `general` are those of `[files]`.
    pub fn file_manner(&self, general: &FileManner) -> FileManner {
        OwnKey::lay_over(&self.own_files, general.clone())
    }

    /// Returns the beginnings of paths that are no part of those below its root.
    pub fn stripped(&self) -> &[PathPrefix] {
        if self.strip_prefix { &self.paths } else { &[] }
    }

    /// Returns its name, or the first of its hosts, or of its paths.
    pub fn called(&self) -> Option<&str> {
        let path = || self.paths.first().map(PathPrefix::as_str);
        self.name.as_deref().or(self.hosts.first().map(String::as_str)).or_else(path)
    }
}

/// The hosts of a site that are one to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHost {
    /// All of them.
    Site,
    /// None: each is for itself.
    Client,
}

/// Permissions of a Unix socket that has no table of its own.
const MODE: &str = "660";

impl Config {
    /// Takes all parameters of the store from a preset, one of [`store::PRESETS`].
    pub fn set_preset(&mut self, name: &str) {
        let preset = store::preset(name).unwrap_or_else(|| panic!("a preset {name:?}"));
        (self.preset, self.store, self.format) = (preset.name, preset.options, preset.format);
    }

    /// Sets the memory; without one it is chosen for this machine.
    pub fn set_memory(&mut self, asked: Option<u64>) {
        self.memory_is_auto = asked.is_none();
        let default = || sizing::default_memory(sizing::machine_memory());
        self.memory = asked.unwrap_or_else(default);
    }

    /// Sets the layout of a new cache; without one it is the preset's.
    pub fn set_layout(&mut self, layout: Option<LayoutName>) {
        self.layout = layout;
        self.format.layout = layout.unwrap_or(self.format.layout);
    }

    /// Returns the options that a new cache is created with.
    pub fn format_options(&self) -> FormatOptions {
        FormatOptions { memory: self.memory, index: self.store.index, ..self.format }
    }

    /// Returns whether this is a reverse proxy or a web server.
    pub fn is_reverse(&self) -> bool {
        self.has_default_site() || !self.sites.is_empty()
    }

    /// Returns whether `reverse` or `static` makes a site.
    pub fn has_default_site(&self) -> bool {
        self.reverse.is_some() || self.root.is_some()
    }

    /// Returns all listeners: those of `listen`, with defaults, and those of the `[[listener]]`
    /// tables.
    pub fn all_listeners(&self) -> Vec<Listener> {
        let plain = self.listen.iter().map(|address| Listener {
            address: Some(address.clone()),
            mode: MODE.to_owned(),
            ..Listener::default()
        });
        plain.chain(self.listeners.iter().cloned()).collect()
    }

    /// Returns whether any listener speaks TLS.
    pub fn speaks_tls(&self) -> bool {
        self.listeners.iter().any(|listener| listener.tls)
    }
}
