//! The configuration as the rest of the program uses it: typed, complete, consistent.
//!
//! Most of it is options of the crates below, which the declarations of the settings set directly
//! ([`crate::config::settings`]). Options that depend on several settings, on the machine or on
//! files are derived by [`crate::config::to_options`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use compression::Compress;
use http::HeaderName;
use ipnet::IpNet;
use net::certificate_store::TlsOptions;
use proxy::client::http2_options::Http2Options;
use proxy::client::limits::{ClientLimits, TunnelLimits};
use proxy::message::forwarded::Forwarded;
use proxy::message::trace_context::Tracing;
use proxy::observe::access_log::{Destination, Format};
use proxy::options::fill::FillOptions;
use proxy::origin::path_prefix::PathPrefix;
use proxy::rules::access::{PortRange, Rule};
use proxy::rules::aliases::Aliases;
use proxy::rules::purging::Purging;
use purge_stream::StreamAddress;
use semantics::ClientReload;
use store::{FormatOptions, LayoutName};
use upstream::message::pseudonym::Pseudonym;
use upstream::settings::limits::UpstreamLimits;

use crate::config::class::Class;
use crate::config::fleet::FleetConfig;
use crate::config::listen_addr::ListenAddr;
use crate::config::listener::{Certificate, Listener};
use crate::config::request_rule::RequestRule;
use crate::config::setting::OwnKey;
use crate::config::sharing::SharingChoices;
use crate::config::sizing;
use crate::config::upstreams::UpstreamSettings;
use crate::config::webroot::{FileSettings, PrivateFile};

/// All settings of `larder serve`, each described in its declaration.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Config {
    pub listen: Vec<ListenAddr>,
    pub reverse: Option<Vec<String>>,
    /// A directory of files to serve, instead of an upstream.
    pub root: Option<PathBuf>,
    pub files: FileSettings,
    /// True if the server of `reverse` receives the client's `Host`.
    pub pass_host: bool,
    pub cache: Vec<PathBuf>,
    pub cache_size: Option<u64>,
    pub memory: u64,
    /// `memory` was not given; it is derived from the machine.
    pub memory_is_auto: bool,
    pub preset: &'static str,
    pub layout: Option<LayoutName>,
    pub admin: Option<SocketAddr>,
    pub admin_names: Vec<String>,
    pub admin_token: Option<String>,
    pub admin_token_file: Option<PathBuf>,
    pub access_log: Option<PathBuf>,
    pub log_format: Format,
    pub request_id: Option<HeaderName>,
    pub tracing: Tracing,
    pub otlp_endpoint: Option<String>,
    pub log_level: String,
    pub workers: Option<usize>,
    pub allow: Vec<IpNet>,
    pub user: Option<String>,
    pub connect_ports: Vec<PortRange>,
    pub pid_file: Option<PathBuf>,
    pub pseudonym: Pseudonym,
    /// The preset's options with those of `[store]`; memory and events are added at opening.
    pub store: store::Options,
    /// The preset's options with those that were given; see [`Config::format_options`].
    pub format: FormatOptions,
    /// Contains the targets as written, including `auto`; settings that depend on the kind of
    /// sharing are in `sharing`.
    pub semantics: semantics::Settings,
    pub sharing: SharingChoices,
    /// `None`: the default of the kind of proxy.
    pub client_reload: Option<ClientReload>,
    /// The fields to add are in `forwarded_add`.
    pub forwarded: Forwarded,
    pub forwarded_add: Vec<String>,
    pub client_hide: Vec<HeaderName>,
    /// The number of connections is in `connections`, the buffers are in `client_buffers`.
    pub client: ClientLimits,
    pub connections: Option<usize>,
    /// `None`: derived from the memory.
    pub client_buffers: Option<u64>,
    pub tunnels: TunnelLimits,
    pub tls: TlsOptions,
    pub http2: Http2Options,
    /// The limits of all sites together; those of single servers are in `upstream_settings`.
    pub upstream: UpstreamLimits,
    pub resolver: Resolver,
    pub dns_servers: Option<Vec<SocketAddr>>,
    pub upstream_settings: UpstreamSettings,
    pub fill: FillOptions,
    pub compress: Compress,
    /// `pass_tags` decides whether tags are passed on; the secret is in the fields after it.
    pub purging: Purging,
    pub purge_secret: Option<String>,
    pub purge_secret_file: Option<PathBuf>,
    /// Directory of memory that outlives the process.
    pub shared_memory: Option<PathBuf>,
    pub purge_secret_field: Option<HeaderName>,
    pub pass_tags: Option<bool>,
    /// `purge.stream`.
    pub stream: Option<StreamAddress>,
    pub stream_credentials: Option<PathBuf>,
    pub stream_ca: Option<PathBuf>,
    pub fleet: FleetConfig,
    pub sites: Vec<Site>,
    pub access: Vec<Rule>,
    pub classes: Vec<Class>,
    pub rules: Vec<RequestRule>,
    pub listeners: Vec<Listener>,
    pub certificates: Vec<Certificate>,
}

/// How host names are resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolver {
    /// System resolver, configured by `nsswitch.conf`. It reports no lifetimes. Programs that are
    /// linked statically cannot load its modules.
    #[cfg_attr(not(target_feature = "crt-static"), default)]
    System,
    /// DNS queries to name servers.
    #[cfg_attr(target_feature = "crt-static", default)]
    Dns,
}

#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Site {
    pub name: Option<String>,
    pub hosts: Vec<String>,
    pub paths: Vec<PathPrefix>,
    pub upstream: Vec<String>,
    pub root: Option<PathBuf>,
    /// True if the prefixes in `paths` are stripped from the path below `root`.
    pub strip_prefix: bool,
    pub pass_host: bool,
    pub key_host: Option<KeyHost>,
    /// The site's own access log; "off" is none.
    pub access_log: Option<PathBuf>,
    /// The keys that differ from `[upstream]`.
    pub own: Vec<OwnKey<UpstreamSettings>>,
    /// The keys that differ from `[files]`.
    pub own_files: Vec<OwnKey<FileSettings>>,
}

/// The name of the site that `reverse` or `static` creates.
pub const DEFAULT_SITE: &str = "default";

impl Site {
    /// Returns whether all hosts of the site share their cached objects. Hosts that are not listed
    /// do not, except for a root of files, which is the same for all hosts.
    pub fn is_one(&self) -> bool {
        let is_one = !self.hosts.is_empty() || self.root.is_some();
        self.key_host.map_or(is_one, |known| known == KeyHost::Site)
    }

    /// Returns the cache's names for the hosts of the site, given the ports of our listeners.
    pub fn aliases(&self, ports: &[u16]) -> Aliases {
        match self.hosts.is_empty() && self.is_one() {
            true => Aliases::of_every_host(ports),
            false => {
                let aliases = Aliases::new(&self.hosts, self.is_one(), ports);
                if self.root.is_some() { aliases.with_every_port() } else { aliases }
            }
        }
    }

    /// Returns the settings of the site's origin servers; `general` are those of `[upstream]`.
    pub fn upstream_settings(&self, general: &UpstreamSettings) -> UpstreamSettings {
        OwnKey::lay_over(&self.own, general.clone())
    }

    /// Returns the file options of the site; `general` are those of `[files]`.
    pub fn file_settings(&self, general: &FileSettings) -> FileSettings {
        OwnKey::lay_over(&self.own_files, general.clone())
    }

    /// Returns the path prefixes to strip before a path is looked up below the root.
    pub fn stripped(&self) -> &[PathPrefix] {
        if self.strip_prefix { &self.paths } else { &[] }
    }

    /// Returns whether no request leads to the site: only the `upstream` of rules names it.
    pub fn is_for_rules(&self) -> bool {
        self.hosts.is_empty() && self.paths.is_empty()
    }

    /// Returns the name of the site, or else its first host, or else its first path.
    pub fn called(&self) -> Option<&str> {
        let path = || self.paths.first().map(PathPrefix::as_str);
        self.name.as_deref().or(self.hosts.first().map(String::as_str)).or_else(path)
    }
}

/// Which hosts of a site share their cached objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHost {
    Site,
    /// None: each host has its own.
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

    /// Sets the memory; `None` selects a default for this machine.
    pub fn set_memory(&mut self, asked: Option<u64>) {
        self.memory_is_auto = asked.is_none();
        let default = || sizing::default_memory(sizing::machine_memory());
        self.memory = asked.unwrap_or_else(default);
    }

    /// Sets the layout of a new cache; `None` keeps that of the preset.
    pub fn set_layout(&mut self, layout: Option<LayoutName>) {
        self.layout = layout;
        self.format.layout = layout.unwrap_or(self.format.layout);
    }

    /// Returns the creation options of a new cache.
    pub fn format_options(&self) -> FormatOptions {
        FormatOptions { memory: self.memory, index: self.store.index, ..self.format }
    }

    /// Returns the access logs of the sites that have their own, by name; `None` is none.
    pub fn site_logs(&self) -> BTreeMap<String, Option<PathBuf>> {
        let logs = self.sites.iter().filter_map(|site| {
            let path = site.access_log.clone()?;
            Some((site.called()?.to_owned(), Some(path).filter(|path| path.as_os_str() != "off")))
        });
        logs.collect()
    }

    /// Returns the files of the proxy that no root may serve.
    pub fn private_files(&self) -> Vec<PrivateFile> {
        let file = |kind, path: &Path| PrivateFile { kind, path: path.to_owned() };
        let caches = self.cache.iter().map(|path| file("cache", path));
        let logs =
            self.access_log.clone().into_iter().chain(self.site_logs().into_values().flatten());
        let logs = logs.filter_map(|log| match Destination::parse(&log) {
            Ok(Destination::File(path)) => Some(file("access log", &path)),
            _ => None,
        });
        let token = self.admin_token_file.iter().map(|path| file("admin token", path));
        caches.chain(logs).chain(token).collect()
    }

    /// Returns whether this is a reverse proxy or a web server.
    pub fn is_reverse(&self) -> bool {
        self.has_default_site() || self.sites.iter().any(|site| !site.is_for_rules())
    }

    /// Returns whether `reverse` or `static` creates a site.
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

    /// Returns whether any listener uses TLS.
    pub fn speaks_tls(&self) -> bool {
        self.listeners.iter().any(|listener| listener.tls)
    }
}
