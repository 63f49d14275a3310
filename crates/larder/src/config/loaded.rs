//! The configuration as the rest of the program uses it: typed, complete, consistent.
//!
//! It is built from three layers: the defaults of [`crate::config::settings`], then the file, then the
//! flags. Whatever is wrong is reported all at once, each with the place that it came from;
//! nothing wrong is ever replaced by a default.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use semantics::FieldNames;

use crate::caches::store_options;
use crate::config::file;
use crate::config::listen_addr::ListenAddr;
use crate::config::request_rule::RequestRule;
use crate::config::setting::Effect;
use crate::config::settings::{SETTINGS, find};
use crate::config::upstreams::{Manner, wrong_servers};
use crate::config::value::Value;

/// Everything that `larder serve` can be told. Field by field described in [`SETTINGS`].
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Config {
    pub listen: Vec<ListenAddr>,
    pub reverse: Option<Vec<String>>,
    pub reverse_host: HostHeader,
    pub cache: Vec<PathBuf>,
    pub cache_size: Option<u64>,
    pub memory: u64,
    pub preset: String,
    pub layout: Option<String>,
    pub admin: Option<SocketAddr>,
    pub admin_names: Vec<String>,
    pub admin_token: Option<String>,
    pub admin_token_file: Option<PathBuf>,
    pub access_log: Option<PathBuf>,
    pub log_format: LogFormat,
    pub log_level: String,
    pub workers: Option<usize>,
    pub allow: Vec<IpNet>,
    pub user: Option<String>,
    pub connect_ports: Vec<String>,
    pub pseudonym: String,
    pub drain: Duration,
    pub store: StoreConfig,
    pub caching: Caching,
    pub forwarded: Forwarded,
    pub client: Client,
    pub tls: crate::config::clients::Tls,
    pub http2: crate::config::clients::Http2,
    pub upstream: Upstream,
    pub fill: Fill,
    pub purge: Purge,
    pub sites: Vec<Site>,
    pub access: Vec<Rule>,
    pub rules: Vec<RequestRule>,
    pub listeners: Vec<crate::config::clients::Listener>,
    pub certificates: Vec<crate::config::clients::Certificate>,
}

/// The keys of `[store]`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct StoreConfig {
    pub mean_object: Option<u32>,
    pub cluster_size: Option<u32>,
    pub write_policy: Option<WritePolicy>,
    pub read_unit: Option<ReadUnit>,
    pub read_window: u64,
    pub read_batch: Option<usize>,
    pub read_batch_timeout: Duration,
    pub read_batch_split: Option<usize>,
    pub durability_bound: Option<Duration>,
    pub flush_interval: Duration,
    pub stall_bound: Duration,
    pub held_percent: u8,
    pub held_time: Duration,
    pub max_object: Option<u64>,
    pub admission: Option<String>,
    pub admission_keys: u64,
    pub one_timer_hours: Option<u64>,
    pub reference_half_life: Option<u8>,
    pub aging_mean: Option<u16>,
    pub young_percent: Option<u8>,
    pub prefer: Option<Prefer>,
    pub index: Option<String>,
    pub index_entries: Option<u64>,
    pub tier_hot: Option<u8>,
    pub tier_medium: Option<u8>,
    pub tier_admission: Option<TierAdmission>,
    pub group_share: Option<u8>,
    pub group_batch: Option<u8>,
    pub group_small: Option<u32>,
    pub group_slack: Option<u32>,
    pub slot_size: Option<u32>,
    pub buddy_threshold: Option<u32>,
    pub stream_runs: Option<u32>,
    pub policy: Option<String>,
    pub fill_percent: Option<u8>,
    pub packet: Option<u32>,
    pub batch: Option<u32>,
    pub locality_buffers: Option<u16>,
    pub locality_size: Option<u32>,
    pub evict_max: Option<u32>,
}

/// The keys of `[caching]`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Caching {
    pub heuristic_percent: u8,
    pub heuristic_max: Duration,
    pub heuristic_without_date: Duration,
    pub stale_when_unreachable: Duration,
    pub stale_while_revalidate: Duration,
    pub stale_if_error: Duration,
    pub stale_despite_s_maxage: bool,
    pub targets: Vec<String>,
    pub store_set_cookie: bool,
    pub reuse_for_authorized: bool,
    pub error_ttl: Option<Duration>,
    pub keep: Option<Duration>,
    pub refresh_ahead: u8,
    pub validate_neighbours: u8,
    pub neighbour_rate: u32,
}

/// The keys of `[purge]`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Purge {
    pub from: Vec<IpNet>,
    pub tag_fields: Vec<String>,
    pub tag_lists: Vec<String>,
    pub pass_tags: Option<bool>,
    pub entries: u32,
}

/// The keys of `[forwarded]`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Forwarded {
    pub add: Vec<String>,
    pub trust: Vec<IpNet>,
}

/// The keys of `[client]`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Client {
    pub connections: Option<usize>,
    pub connections_per_address: Option<usize>,
    pub head_size: usize,
    pub headers: usize,
    pub field_names: FieldNames,
    pub head_timeout: Duration,
    pub idle_timeout: Duration,
    pub stall_timeout: Duration,
    pub rate_min: u64,
    pub tunnels: usize,
    pub tunnel_idle: Duration,
    pub tunnel_time: Option<Duration>,
}

/// Who looks names up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolver {
    /// The system, by all that its `nsswitch.conf` names. It tells no lifetimes.
    #[default]
    System,
    /// Name servers, asked by DNS.
    Dns,
}

/// The keys of `[upstream]`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Upstream {
    pub connect_timeout: Duration,
    pub stagger: Duration,
    pub head_timeout: Duration,
    pub body_timeout: Duration,
    pub head_size: usize,
    pub idle_per_origin: usize,
    pub idle_total: usize,
    pub idle_timeout: Duration,
    pub dns_ttl: Duration,
    pub dns_ttl_min: Duration,
    pub dns_ttl_max: Duration,
    pub resolver: Resolver,
    pub dns_servers: Option<Vec<SocketAddr>>,
    pub manner: Manner,
}

/// The keys of `[fill]`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Fill {
    pub window: usize,
    pub finish_percent: u8,
    pub finish_rest: u64,
    pub follow_distance: u64,
    pub part_window: u32,
    pub aligned_from: u64,
    pub wait: Duration,
    pub unshareable_for: Duration,
    pub unshareable_keys: usize,
}

/// One `[[site]]` of a reverse proxy.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Site {
    pub name: Option<String>,
    pub hosts: Vec<String>,
    pub upstream: Vec<String>,
    pub host_header: HostHeader,
    pub key_host: Option<KeyHost>,
    pub manner: Manner,
}

/// The name of the site that `reverse` makes.
pub const DEFAULT_SITE: &str = "default";

impl Site {
    /// Whether its hosts are one to the cache.
    pub fn is_one(&self) -> bool {
        self.key_host != Some(KeyHost::Client)
    }

    /// What of its hosts an origin server may not expect, unless somebody has thought of it.
    fn host_warning(&self) -> Option<String> {
        let told = self.host_header == HostHeader::Client && self.hosts.len() > 1;
        (told && self.key_host.is_none()).then(|| {
            let (name, first) = (self.called().unwrap_or_default(), &self.hosts[0]);
            format!(
                "site {name}: its hosts are one to the cache, and GET asks its origin servers for \
                 {first} whichever of them the client names; say key-host = \"site\" if that is \
                 meant, or key-host = \"client\" if the origin servers tell the hosts apart (by \
                 redirecting from one to the other, say)"
            )
        })
    }

    /// Its name, or the first of its hosts.
    pub fn called(&self) -> Option<&str> {
        self.name.as_deref().or(self.hosts.first().map(String::as_str))
    }
}

/// One `[[access]]` rule. An empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Rule {
    pub action: Action,
    pub clients: Vec<IpNet>,
    pub methods: Vec<String>,
    pub hosts: Vec<String>,
    pub destinations: Vec<IpNet>,
    pub ports: Vec<String>,
}

/// What an access rule does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// The request goes on.
    Allow,
    /// The request is answered with 403.
    #[default]
    Deny,
}

/// Which Host a reverse proxy sends upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostHeader {
    /// The one that the client sent.
    #[default]
    Client,
    /// That of the upstream's URL.
    Upstream,
}

/// Which of a site's hosts are one to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHost {
    /// All of them.
    Site,
    /// None: each is for itself.
    Client,
}

/// The form of a line of the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// As web servers write it.
    #[default]
    Combined,
    /// Squid's native format.
    Squid,
    /// One JSON object per line.
    Json,
}

/// When an object is written to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// As soon as it is complete.
    OnInsert,
    /// When it leaves memory.
    OnEvict,
}

/// What a hit reads from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadUnit {
    /// Just the object.
    Object,
    /// The cluster that holds it.
    Cluster,
}

/// What a reference to a cluster counts (`store.prefer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefer {
    /// One.
    Requests,
    /// The bytes of what was asked for.
    Bytes,
}

/// What enters memory when it is read (`store.tier-admission`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierAdmission {
    /// Everything.
    All,
    /// What was asked for before.
    SecondUse,
}

impl Config {
    /// What an operator should know of a configuration that is as it should be: which sites store
    /// answers that set cookies.
    pub fn remarks(&self) -> Vec<String> {
        let named = |site: &Site| {
            let name = site.name.as_ref().or(site.hosts.first());
            name.map_or("without a name", String::as_str).to_owned()
        };
        let mut sites: Vec<String> = self.sites.iter().map(named).collect();
        if self.reverse.is_some() {
            sites.push("of reverse".to_owned());
        }
        if !self.caching.store_set_cookie || sites.is_empty() {
            return Vec::new();
        }
        let which = if sites.len() == 1 { "site" } else { "sites" };
        let sites = sites.join(", ");
        vec![format!(
            "{which} {sites}: an answer with Set-Cookie is stored, cookie and all, when the origin \
             server says how long for all; everybody gets that cookie. If an origin server says so \
             by mistake, set caching.store-set-cookie = false (docs/security.md)"
        )]
    }

    /// What is allowed but probably not meant.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let is_reverse = self.reverse.is_some() || !self.sites.is_empty();
        if is_reverse && !self.allow.is_empty() {
            let text = "allow has no effect: a reverse proxy is open to all clients";
            warnings.push(text.to_owned());
        }
        if let Some(all) = self.allow.iter().find(|network| network.prefix_len() == 0)
            && !is_reverse
        {
            warnings.push(format!("allow includes {all}: this is an open proxy for everybody"));
        }
        if self.upstream.manner.is_unverified() {
            let text = "upstream.tls-verify is false: ANYBODY CAN PASS FOR AN ORIGIN SERVER; what \
                        they answer is stored and served";
            warnings.push(text.to_owned());
        }
        for site in self.sites.iter().filter(|site| site.manner.is_unverified()) {
            let name = site.name.as_ref().or(site.hosts.first()).map_or("", String::as_str);
            warnings.push(format!(
                "site {name}: tls-verify is false: ANYBODY CAN PASS FOR ITS ORIGIN SERVERS; what \
                 they answer is stored and served"
            ));
        }
        warnings.extend(self.sites.iter().filter_map(Site::host_warning));
        warnings.extend(self.idle_rules());
        if !self.certificates.is_empty() && !self.speaks_tls() {
            warnings.push("there are certificates, but no [[listener]] says tls = true".to_owned());
        }
        warnings
    }
}

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the command line, as the flag of the setting's name.
    Flag,
    /// In a file, at a line counted from 1.
    Line(usize),
}

/// Something wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it is.
    pub place: Place,
    /// The key that it is about; empty when it is about the file as a whole.
    pub key: String,
    /// What is wrong and what was expected.
    pub text: String,
}

/// A value and where it was given.
#[derive(Clone, Debug)]
pub struct Given {
    /// The value.
    pub value: Value,
    /// Where.
    pub place: Place,
}

/// Values by key: what one layer says.
pub type Layer = BTreeMap<&'static str, Given>;

/// What a file says: settings and repeated tables, these with the lines where they begin where that
/// is needed.
#[derive(Clone, Debug, Default)]
pub struct FileLayer {
    /// The settings.
    pub settings: Layer,
    /// The `[[site]]` tables.
    pub sites: Vec<(Site, usize)>,
    /// The `[[access]]` tables.
    pub access: Vec<Rule>,
    /// The `[[rule]]` tables.
    pub rules: Vec<(RequestRule, usize)>,
    /// The `[[listener]]` tables.
    pub listeners: Vec<(crate::config::clients::Listener, usize)>,
    /// The `[[certificate]]` tables.
    pub certificates: Vec<(crate::config::clients::Certificate, usize)>,
}

/// A configuration file as it was read: what it says, and its name for messages.
#[derive(Clone, Debug, Default)]
pub struct File {
    name: String,
    layer: FileLayer,
}

/// All problems found, ready to be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    file: String,
    list: Vec<Problem>,
}

/// A configuration with everything that is needed to compare it with a later one.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    values: BTreeMap<&'static str, Value>,
}

impl File {
    /// Parses the text of a file called `name`.
    pub fn parse(name: &str, text: &str) -> Result<File, Problems> {
        let (layer, list) = file::read(text);
        match list.is_empty() {
            true => Ok(File { name: name.to_owned(), layer }),
            false => Err(Problems { file: name.to_owned(), list }),
        }
    }
}

impl Loaded {
    /// Lays the flags over the file over the defaults, and checks the whole.
    pub fn build(file: &File, flags: &Layer) -> Result<Loaded, Problems> {
        let mut config = Config::default();
        let mut values = BTreeMap::new();
        for setting in SETTINGS {
            let given = flags.get(setting.key).or_else(|| file.layer.settings.get(setting.key));
            let value = given.map(|given| given.value.clone()).or_else(|| setting.default_value());
            if let Some(value) = value {
                setting.apply(&mut config, value.clone());
                values.insert(setting.key, value);
            }
        }
        config.sites = file.layer.sites.iter().map(|(site, _)| site.clone()).collect();
        config.access = file.layer.access.clone();
        config.rules = file.layer.rules.iter().map(|(rule, _)| rule.clone()).collect();
        config.listeners = file.layer.listeners.iter().map(|(l, _)| l.clone()).collect();
        config.certificates = file.layer.certificates.iter().map(|(c, _)| c.clone()).collect();
        let given = flags.contains_key("listen") || file.layer.settings.contains_key("listen");
        if !config.listeners.is_empty() && !given {
            config.listen.clear();
        }
        let list = Checker { config: &config, file: &file.layer, flags, list: Vec::new() }.run();
        match list.is_empty() {
            true => Ok(Loaded { config, values }),
            false => Err(Problems { file: file.name.clone(), list }),
        }
    }

    /// Takes over from `new` what may change while running. Returns the keys that changed and
    /// were taken over, and those that changed but wait for a restart.
    pub fn reload(&mut self, new: &Loaded) -> Changes {
        let mut changes = Changes::default();
        for setting in SETTINGS {
            let Some(value) = new.values.get(setting.key) else { continue };
            if self.values.get(setting.key) == Some(value) {
                continue;
            }
            if setting.effect == Effect::Reload {
                setting.apply(&mut self.config, value.clone());
                self.values.insert(setting.key, value.clone());
                changes.applied.push(setting.key);
            } else {
                changes.waiting.push(setting.key);
            }
        }
        if self.config.access != new.config.access {
            self.config.access = new.config.access.clone();
            changes.applied.push("access");
        }
        if self.config.rules != new.config.rules {
            self.config.rules = new.config.rules.clone();
            changes.applied.push("rule");
        }
        if self.config.certificates != new.config.certificates {
            self.config.certificates = new.config.certificates.clone();
            changes.applied.push("certificate");
        }
        if self.config.listeners != new.config.listeners {
            changes.waiting.push("listener");
        }
        if self.config.sites != new.config.sites {
            changes.waiting.push("site");
        }
        changes
    }
}

/// What a reload found changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// In effect from now on.
    pub applied: Vec<&'static str>,
    /// In effect after a restart only.
    pub waiting: Vec<&'static str>,
}

/// Checks what no single value can be checked for.
struct Checker<'a> {
    config: &'a Config,
    file: &'a FileLayer,
    flags: &'a Layer,
    list: Vec<Problem>,
}

impl Checker<'_> {
    fn run(mut self) -> Vec<Problem> {
        self.listeners();
        self.repeats("cache", &self.config.cache);
        self.addresses();
        self.admin();
        self.sites();
        self.servers();
        self.manners();
        self.rules();
        self.store();
        self.list
    }

    fn store(&mut self) {
        if let Some(size) = self.config.store.cluster_size
            && !size.is_power_of_two()
        {
            self.complain("store.cluster-size", "expected a power of two such as 64K".to_owned());
        }
        self.slots();
        let shares = store_options::tier_shares(self.config);
        let sum = u32::from(shares.hot) + u32::from(shares.medium);
        if sum > 100 {
            let key = if self.given("store.tier-hot") { "tier-hot" } else { "tier-medium" };
            let text = format!(
                "expected tier-hot and tier-medium to be 100 at most together, got {} + {}",
                shares.hot, shares.medium
            );
            self.complain(&format!("store.{key}"), text);
        }
    }

    /// What must fit together in the layouts that have slots.
    fn slots(&mut self) {
        let (ours, format) = (&self.config.store, store_options::format_options(self.config));
        if let Some(size) = ours.slot_size
            && !size.is_power_of_two()
        {
            let text = "expected 512, 1K, 2K or 4K".to_owned();
            return self.complain("store.slot-size", text);
        }
        if ours.packet.is_some_and(|packet| !packet.is_multiple_of(4096)) {
            let text = "expected a multiple of 4K such as 8K, or 0".to_owned();
            self.complain("store.packet", text);
        }
        let (threshold, slot) = (format.buddy_threshold, format.slot_size);
        if !threshold.is_multiple_of(slot) {
            let threshold_given = self.given("store.buddy-threshold");
            let key = if threshold_given { "buddy-threshold" } else { "slot-size" };
            let text = format!(
                "expected buddy-threshold ({threshold} bytes) to be a multiple of slot-size \
                 ({slot} bytes)"
            );
            self.complain(&format!("store.{key}"), text);
        }
    }

    /// Adds a problem with `key`, at the place where its value was given.
    fn complain(&mut self, key: &str, text: String) {
        let given = self.flags.get(key).or_else(|| self.file.settings.get(key));
        let place = given.map_or(Place::Line(1), |given| given.place.clone());
        self.list.push(Problem { place, key: key.to_owned(), text });
    }

    fn repeats<T: PartialEq + fmt::Debug>(&mut self, key: &str, values: &[T]) {
        if values.is_empty() {
            self.complain(key, "expected at least one".to_owned());
        }
        for (at, value) in values.iter().enumerate() {
            if values[..at].contains(value) {
                self.complain(key, format!("{value:?} is given twice"));
            }
        }
    }

    fn listeners(&mut self) {
        let lines: Vec<usize> = self.file.listeners.iter().map(|(_, line)| *line).collect();
        for (table, key, text) in self.config.listener_problems() {
            match table {
                Some(table) => {
                    let place = Place::Line(lines[table]);
                    self.list.push(Problem { place, key: key.to_owned(), text });
                }
                None => self.complain(key, text),
            }
        }
    }

    fn addresses(&mut self) {
        if let Some(admin) = self.config.admin
            && admin.port() != 0
            && self.config.all_listeners().iter().any(|l| l.address == Some(ListenAddr::Ip(admin)))
        {
            let key = if self.given("admin") { "admin" } else { "listen" };
            let text = format!("{admin} cannot be both: a proxy and the admin interface");
            self.complain(key, text);
        }
    }

    fn admin(&mut self) {
        if self.config.admin_token.is_some() && self.config.admin_token_file.is_some() {
            let text = "expected one of admin-token and admin-token-file, got both".to_owned();
            self.complain("admin-token", text);
        }
    }

    fn servers(&mut self) {
        if let Some(why) = self.config.reverse.as_deref().and_then(wrong_servers) {
            self.complain("reverse", why);
        }
        for (site, line) in &self.file.sites {
            // An empty list that was not given has been complained of.
            if let Some(text) = wrong_servers(&site.upstream) {
                let (place, key) = (Place::Line(*line), "site.upstream".to_owned());
                self.list.push(Problem { place, key, text });
            }
        }
    }

    /// How origin servers are spoken to must make sense for each site.
    fn manners(&mut self) {
        let general = Manner::default().over(&self.config.upstream.manner);
        if let Some((key, text)) = general.problem() {
            return self.complain(&format!("upstream.{key}"), text);
        }
        for (site, line) in &self.file.sites {
            if let Some((key, text)) = site.manner.over(&general).problem() {
                let (place, key) = (Place::Line(*line), format!("site.{key}"));
                self.list.push(Problem { place, key, text });
            }
        }
    }

    fn rules(&mut self) {
        let sites = self.config.sites.iter().filter_map(Site::called);
        let default = self.config.reverse.is_some().then_some(DEFAULT_SITE);
        let sites: Vec<&str> = sites.chain(default).collect();
        for (at, (rule, line)) in self.file.rules.iter().enumerate() {
            let unknown = rule.sites.iter().find(|name| !sites.contains(&name.as_str()));
            let wrong = match unknown {
                Some(name) => Some(("sites", format!("there is no site {name:?}"))),
                None => rule.to_proxy(at + 1, &semantics::Settings::default()).err(),
            };
            if let Some((key, text)) = wrong {
                let (place, key) = (Place::Line(*line), format!("rule.{key}"));
                self.list.push(Problem { place, key, text });
            }
        }
    }

    fn given(&self, key: &str) -> bool {
        self.flags.contains_key(key) || self.file.settings.contains_key(key)
    }

    fn sites(&mut self) {
        let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for (site, line) in &self.file.sites {
            let mut complain = |key: &str, text: String| {
                let place = Place::Line(*line);
                self.list.push(Problem { place, key: key.to_owned(), text });
            };
            if site.hosts.is_empty() {
                complain("site.hosts", "expected at least one host".to_owned());
            }
            for host in &site.hosts {
                if let Some(other) = hosts.insert(host, *line) {
                    let text = format!("{host:?} already belongs to the site of line {other}");
                    complain("site.hosts", text);
                }
            }
            if let Some(name) = site.called()
                && let Some(other) = names.insert(name, *line)
            {
                complain("site.name", format!("{name:?} is the site of line {other} already"));
            }
        }
    }
}

/// Says which setting of a layer a person probably meant by `key`: within a third of its length.
pub fn nearest<'a>(key: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |name: &&str| strsim::osa_distance(key, name);
    names.min_by_key(distance).filter(|name| distance(name) <= name.len().max(3) / 3)
}

/// Reads one flag's values into `layer`.
pub fn add_flag(layer: &mut Layer, key: &'static str, texts: &[String]) -> Result<(), Problem> {
    let Some(setting) = find(key) else { return Ok(()) };
    let mut all = Vec::new();
    for text in texts {
        match setting.parse(text) {
            Ok(Value::List(values)) => all.extend(values),
            Ok(value) => {
                layer.insert(key, Given { value, place: Place::Flag });
            }
            Err(text) => return Err(Problem { place: Place::Flag, key: key.to_owned(), text }),
        }
    }
    if !all.is_empty() {
        layer.insert(key, Given { value: Value::List(all), place: Place::Flag });
    }
    Ok(())
}

impl Problems {
    /// Problems of the command line alone.
    pub fn of_flags(list: Vec<Problem>) -> Problems {
        Problems { file: String::new(), list }
    }
}

impl fmt::Display for Problems {
    /// One line per problem: `larder.toml:12: cache-size: expected …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Problem { place, key, text }) in self.list.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            match place {
                Place::Flag => write!(f, "--{key}: {text}")?,
                Place::Line(line) if key.is_empty() => write!(f, "{}:{line}: {text}", self.file)?,
                Place::Line(line) => write!(f, "{}:{line}: {key}: {text}", self.file)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
