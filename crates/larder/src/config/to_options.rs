//! Translates the configuration into the options of the proxy and of the store.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use compression::Compress;
use http::HeaderName;
use net::address::Locals;
use net::certificate::Certificate;
use net::certificate_store::CertificateStore;
use proxy::admin::guard::Guard;
use proxy::client::limits::ClientLimits;
use proxy::message::forwarded::Forwarded;
use proxy::message::request_id::RequestIds;
use proxy::options::Options;
use proxy::origin::site::{Front, Site, Source};
use proxy::peers::purge_stream::PurgeStream;
use proxy::rules::access::Access;
use proxy::rules::aliases::Aliases;
use proxy::rules::client_edits::ClientEdits;
use proxy::rules::purging::{PurgeSecret, Purging};
use proxy::rules::request_rules::Rules;
use purge_stream::{Credentials, Settings as StreamSettings};
use semantics::forwarded::Field;
use semantics::{ClientReload, Settings};
use upstream::names::resolver::DnsLookup;
use upstream::settings::endpoint::Http2;
use upstream::settings::limits::UpstreamLimits;
use upstream::settings::lookup::{Lookup, SystemLookup};
use upstream::settings::tls::{Tls, TlsOptions};

use crate::config::configuration::{Config, DEFAULT_SITE, Resolver};
use crate::config::listener;
use crate::config::rule_actions::{RuleUpstream, files_of, hidden_site};
use crate::config::rule_response::RuleResponse;
use crate::config::sizing;
use crate::config::upstreams::group;
use crate::config::webroot::OpenRoots;

/// The inputs of the proxy's options besides the configuration.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The bound addresses of all our listeners, including the admin interface.
    pub own: Vec<SocketAddr>,
    /// The number of file descriptors that the process may have.
    pub descriptors: u64,
    pub roots: OpenRoots,
}

/// Returns the proxy's options. The error is a sentence.
pub fn proxy_options(config: &Config, around: &Surroundings) -> Result<Options, String> {
    let mut ports: Vec<u16> = around.own.iter().map(SocketAddr::port).collect();
    ports.sort_unstable();
    ports.dedup();
    let front = front(config, &ports, &around.roots)?;
    let access = access(config, &front, around)?;
    let (semantics, forwarded) = (semantics(config), forwarded(config)?);
    let connections = sizing::connections(config.connections, around.descriptors);
    let buffers = config.client_buffers.unwrap_or_else(|| sizing::client_buffers(config.memory));
    Ok(Options {
        pseudonym: config.pseudonym.clone(),
        rules: with_trusted(rules(config, &semantics)?, &forwarded),
        client: ClientLimits { connections, buffers, ..config.client.clone() },
        http2: config.http2.clone(),
        tunnels: config.tunnels.clone(),
        keyring: keyring(config)?.map(Arc::new),
        upstream: upstream(config)?,
        fill: config.fill.clone(),
        compress: compress(config)?,
        semantics,
        forwarded,
        client_edits: client_edits(config)?,
        request_id: request_ids(config),
        tracing: config.tracing,
        purging: purging(config)?,
        caches: config.cache.len(),
        ..Options::new(front, Arc::new(access))
    })
}

/// Returns options with the rules and access rules of a configuration that differs from that of
/// `current` in their lists only. The error is a sentence.
pub fn with_lists(
    config: &Config,
    current: &Options,
    around: &Surroundings,
) -> Result<Options, String> {
    let rules = rules(config, &semantics(config))?;
    Ok(Options {
        access: Arc::new(access(config, &current.front, around)?),
        rules: with_trusted(rules, &current.forwarded),
        ..current.clone()
    })
}

/// Returns what is compressed. The error is a sentence.
fn compress(config: &Config) -> Result<Compress, String> {
    let Compress { least, most, .. } = config.compress;
    match least <= most {
        true => Ok(config.compress.clone()),
        false => Err("compression.min: expected no more than compression.max".to_owned()),
    }
}

/// Returns the sites that are served on our own `ports`. Reads the files for TLS to origin servers,
/// and opens directories that are not yet `open`. The error is a sentence.
pub fn front(config: &Config, ports: &[u16], open: &OpenRoots) -> Result<Front, String> {
    let (mut sites, mut hidden) = (Vec::new(), hidden_sites(config)?);
    let private = config.private_files();
    for site in &config.sites {
        let is_for_rules = site.is_for_rules();
        let name = site.called().unwrap_or_default().to_owned();
        let pass_host = site.pass_host;
        let host = site.hosts.first().filter(|_| pass_host).map(String::as_str);
        let source = match &site.root {
            Some(root) => {
                let settings = site.file_settings(&config.files);
                Source::Other(settings.open(&name, root, site.stripped(), open, &private)?)
            }
            None => group(
                &site.upstream_settings(&config.upstream_settings),
                &name,
                &site.upstream,
                host,
            )?
            .into(),
        };
        let aliases = site.aliases(ports);
        let (hosts, paths) = (site.hosts.clone(), site.paths.clone());
        let site = Site::new(&name, source).with_hosts(hosts).with_paths(paths);
        let site = site.with_pass_host(pass_host).with_aliases(aliases);
        if is_for_rules { &mut hidden } else { &mut sites }.push(site);
    }
    if let Some(upstream) = &config.reverse {
        let name = DEFAULT_SITE.to_owned();
        let upstream = group(&config.upstream_settings, &name, upstream, None)?;
        let pass_host = config.pass_host;
        // The clients' names for this site are not configured, so each name is separate.
        let aliases = Aliases::new(&[], false, ports);
        let site = Site::new(&name, upstream).with_pass_host(pass_host);
        sites.push(site.with_aliases(aliases));
    }
    if let Some(root) = &config.root {
        let origin = config.files.open(DEFAULT_SITE, root, &[], open, &private)?;
        let source = Source::Other(origin);
        sites.push(Site::new(DEFAULT_SITE, source).with_aliases(Aliases::of_every_host(ports)));
    }
    if sites.is_empty() {
        return Ok(Front::forward());
    }
    for (at, rule) in config.rules.iter().enumerate() {
        let Some(root) = &rule.actions.try_root else { continue };
        let name = files_of(&rule.called(at + 1));
        let settings = match rule.actions.try_files.is_empty() {
            true => config.files.without_directories(),
            false => config.files.without_listings(),
        };
        let origin = settings.open(&name, root, &[], open, &private)?;
        hidden.push(Site::new(&name, Source::Other(origin)));
    }
    Ok(Front::reverse(sites).with_hidden(hidden))
}

/// Returns the sites of the origins that rules name.
fn hidden_sites(config: &Config) -> Result<Vec<Site>, String> {
    let mut sites = Vec::new();
    for (at, rule) in config.rules.iter().enumerate() {
        let name = hidden_site(&rule.called(at + 1));
        let source = match rule.actions.upstream() {
            Some(RuleUpstream::Servers(servers)) => {
                group(&config.upstream_settings, &name, servers, None)?.into()
            }
            Some(RuleUpstream::Template(_)) => Source::Named,
            Some(RuleUpstream::Site(_)) | None => continue,
        };
        sites.push(Site::new(&name, source).with_pass_host(true));
    }
    Ok(sites)
}

fn access(config: &Config, front: &Front, around: &Surroundings) -> Result<Access, String> {
    let locals = Locals::of_this_machine()
        .map_err(|error| format!("cannot list the addresses of this machine: {error}"))?;
    Ok(Access::new(front.kind(), locals)
        .rules(config.access.clone())
        .allow(config.allow.clone())
        .connect_ports(config.connect_ports.clone())
        .own(around.own.clone()))
}

fn parse_all<T: std::str::FromStr<Err: ToString>>(texts: &[String]) -> Result<Vec<T>, String> {
    texts.iter().map(|text| text.parse::<T>().map_err(|error| error.to_string())).collect()
}

/// Returns the request rules. The error is a sentence.
pub fn rules(config: &Config, base: &Settings) -> Result<Rules, String> {
    let for_all = client_edits(config)?;
    let classes = config.classes_to_proxy()?;
    let numbered = config.rules.iter().enumerate();
    let rules = numbered.map(|(at, rule)| {
        let rule = rule.to_proxy(at + 1, base, &classes);
        let mut rule = rule.map_err(|(key, why)| format!("rule.{key}: {why}"))?;
        if let (Some(for_all), Some(own)) = (&for_all, &rule.client) {
            rule.client = Some(Arc::new(for_all.then(own)));
        }
        Ok::<_, String>(rule)
    });
    let rules = rules.collect::<Result<_, _>>()?;
    Ok(Rules::new(rules, base).with_classes(classes))
}

/// Returns the edits of responses to all clients, if there are any.
fn client_edits(config: &Config) -> Result<Option<Arc<ClientEdits>>, String> {
    let edits = ClientEdits::new(&[], &[], &config.client_hide)?;
    Ok(Some(Arc::new(edits)).filter(|edits| !edits.is_empty()))
}

fn request_ids(config: &Config) -> RequestIds {
    let mut texts = config
        .rules
        .iter()
        .flat_map(|rule| [&rule.request_set, &rule.answer_set, &rule.client_set])
        .flatten()
        .chain(config.rules.iter().flat_map(|rule| &rule.responses).flat_map(RuleResponse::texts))
        .chain(config.rules.iter().flat_map(|rule| rule.actions.texts()));
    let in_rules = texts.any(|text| text.contains("{request_id}"));
    RequestIds { field: config.request_id.clone(), in_rules }
}

/// Makes host, port and path as stated by trusted proxies part of the key of every object.
fn with_trusted(rules: Rules, forwarded: &Forwarded) -> Rules {
    if forwarded.trust.is_empty() {
        return rules;
    }
    let fields = forwarded.trust_fields.key_names();
    rules.with_key_fields("forwarded.trust-fields", fields)
}

/// Returns the caching settings. The default targeted fields are those of a cache in front of
/// origins (RFC 9213, 3.1); a forward proxy acts for its clients and obeys none.
fn semantics(config: &Config) -> Settings {
    let mut settings = config.semantics.clone();
    if matches!(settings.targets.as_slice(), [auto] if auto == "auto") {
        let cdn = HeaderName::from_static("cdn-cache-control");
        settings.targets = if config.is_reverse() { vec![cdn] } else { Vec::new() };
    }
    settings.client_reload = config.client_reload.unwrap_or(match config.is_reverse() {
        true => ClientReload::Share,
        false => ClientReload::Obey,
    });
    config.sharing.settle(settings)
}

/// Returns the forwarding fields that upstreams receive. By default the origins behind a reverse
/// proxy learn client, scheme and host, which they could not know otherwise.
fn forwarded(config: &Config) -> Result<Forwarded, String> {
    let add = match config.forwarded_add.as_slice() {
        [auto] if auto == "auto" && config.is_reverse() => {
            vec![Field::For, Field::Proto, Field::Host]
        }
        [auto] if auto == "auto" => Vec::new(),
        names => parse_all(names)?,
    };
    Ok(Forwarded { add, ..config.forwarded.clone() })
}

/// A field whose tags are separated by commas, whichever setting names it.
const MAGENTO_TAGS: &str = "x-magento-tags";

/// Returns the options of purging. Reads the file of the secret. Tags are a matter between origin
/// servers and the cache in front of them, so its clients do not see them.
pub fn purging(config: &Config) -> Result<Purging, String> {
    let pass_tags = config.pass_tags.unwrap_or(!config.is_reverse());
    let secret = match (&config.purge_secret, &config.purge_secret_file) {
        (Some(secret), _) => Some(secret.clone()),
        (None, Some(path)) => Some(read_secret("purge.secret-file", path)?),
        (None, None) => None,
    };
    let secret = secret.zip(config.purge_secret_field.clone()).map(|(secret, field)| {
        PurgeSecret::new(field, &secret).map_err(|why| format!("purge.secret-file: {why}"))
    });
    let mut tags = config.purging.tags.clone();
    let of_magento = tags.spaced.extract_if(.., |name| name.as_str() == MAGENTO_TAGS);
    tags.listed.extend(of_magento);
    tags.listed.dedup();
    Ok(Purging { pass_tags, secret: secret.transpose()?, tags, ..config.purging.clone() })
}

/// Returns the stream of purges that several sites share, if there is one. Reads the files that it
/// needs.
pub fn stream(config: &Config) -> Result<Option<PurgeStream>, String> {
    let Some(address) = config.stream.clone() else { return Ok(None) };
    let credentials = config.stream_credentials.as_deref();
    let credentials = credentials.map(|path| read_secret("purge.stream-credentials", path));
    let tls = TlsOptions { authorities: config.stream_ca.clone(), ..TlsOptions::default() };
    let tls = address.is_tls().then(|| Tls::new(tls, Http2::Off).config());
    let tls = tls.transpose().map_err(|why| format!("purge.stream-ca: {why}"))?;
    let lease = config.fleet.lease;
    let settings = StreamSettings {
        address,
        credentials: credentials.transpose()?.as_deref().map(Credentials::read),
        tls,
        client: "larder".to_owned(),
        patience: STREAM_PATIENCE.min(lease / 4),
    };
    Ok(Some(PurgeStream::new(settings, lease)))
}

/// How long a server of the stream may take to answer, in the longest lease.
const STREAM_PATIENCE: Duration = Duration::from_secs(2);

/// Loads the certificates, if any listener needs them.
pub fn keyring(config: &Config) -> Result<Option<CertificateStore>, String> {
    if !config.speaks_tls() {
        return Ok(None);
    }
    let load = |certificate: &listener::Certificate| {
        let listener::Certificate { chain, key, hosts } = certificate;
        Certificate::load(chain, key.as_ref().unwrap_or(chain), hosts)
            .map_err(|why| format!("certificate: {why}"))
    };
    let certificates = config.certificates.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    CertificateStore::new(certificates, &config.tls).map(Some)
}

pub fn keyring_warnings(keyring: &CertificateStore) -> Vec<String> {
    let now = SystemTime::now();
    keyring.certificates().iter().filter_map(|certificate| certificate.warning(now)).collect()
}

fn upstream(config: &Config) -> Result<UpstreamLimits, String> {
    let lookup: Arc<dyn Lookup> = match config.resolver {
        Resolver::System => Arc::new(SystemLookup),
        Resolver::Dns => {
            let servers = config.dns_servers.as_deref().unwrap_or_default();
            Arc::new(DnsLookup::new(servers).map_err(|why| format!("upstream.resolver: {why}"))?)
        }
    };
    let (tls, http2) = (config.upstream_settings.tls(), config.upstream_settings.http2);
    Ok(UpstreamLimits { lookup, tls, http2, ..config.upstream.clone() })
}

/// Returns the guard of the admin interface. Reads the file of its token.
pub fn guard(config: &Config) -> Result<Guard, String> {
    let token = match (&config.admin_token, &config.admin_token_file) {
        (Some(token), _) => Some(token.clone()),
        (None, Some(path)) => Some(read_secret("admin-token-file", path)?),
        (None, None) => None,
    };
    Ok(Guard::new(config.admin_names.clone(), token))
}

/// Reads the file of a token or secret; the setting `key` names the file.
fn read_secret(key: &str, path: &Path) -> Result<String, String> {
    let at = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{key}: {at}: {error}"))?;
    match text.trim() {
        "" => Err(format!("{key}: {at}: expected a word, the file is empty")),
        secret => Ok(secret.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proxy::observe::front_kind::FrontKind;

    use super::*;
    use crate::config::file::File;
    use crate::config::layers::Layer;
    use crate::config::loaded::Loaded;

    fn options(text: &str) -> Options {
        let file = File::parse("larder.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
        let loaded = Loaded::build(&file, &Layer::new());
        let config = loaded.unwrap_or_else(|problems| panic!("{problems}")).config;
        let own = vec!["127.0.0.1:3128".parse().unwrap()];
        proxy_options(
            &config,
            &Surroundings { own, descriptors: 1024, roots: OpenRoots::default() },
        )
        .unwrap()
    }

    #[test]
    fn the_defaults_are_those_of_the_proxy() {
        let ours = options("");
        let theirs = Options::new(Front::forward(), ours.access.clone());
        assert_eq!(format!("{:?}", ours.upstream), format!("{:?}", theirs.upstream));
        assert_eq!(ours.http2, theirs.http2);
        assert!(ours.keyring.is_none());
        assert_eq!(format!("{:?}", ours.fill), format!("{:?}", theirs.fill));
        // These depend on the machine.
        let ClientLimits { connections, buffers, .. } = ours.client;
        assert_eq!(connections, 448);
        let client = ClientLimits { connections, buffers, ..theirs.client };
        assert_eq!(format!("{:?}", ours.client), format!("{client:?}"));
        assert_eq!(ours.semantics, theirs.semantics);
        assert_eq!(ours.pseudonym, theirs.pseudonym);
        assert_eq!(ours.front.kind(), FrontKind::Forward);
    }

    #[test]
    fn tags_of_magento_are_separated_by_commas() {
        let tags = options("[purge]\ntag-fields = ['xkey', 'X-Magento-Tags']").purging.tags;
        assert_eq!(tags.spaced, ["xkey"]);
        assert_eq!(tags.listed, ["cache-tag", "x-cache-tags", "x-magento-tags"]);
        assert_eq!(tags.of_value("x-magento-tags", b"a,b"), [&b"a"[..], b"b"]);
    }

    #[test]
    fn sites_come_first_and_the_rest_goes_to_reverse() {
        let text = "
            reverse = 'http://[::1]:8080'
            reverse-host = 'upstream'
            [[site]]
            hosts = ['example.com']
            upstream = 'http://10.0.0.1'
        ";
        let front = options(text).front;
        assert_eq!(front.kind(), FrontKind::Reverse);
        let sites = front.sites();
        let told: Vec<_> = sites
            .iter()
            .map(|s| {
                (
                    s.name().unwrap(),
                    s.group().unwrap().servers()[0].endpoint.to_string(),
                    s.passes_host(),
                )
            })
            .collect();
        let expected = [("example.com", "10.0.0.1:80", true), ("default", "[::1]:8080", false)];
        assert_eq!(told, expected.map(|(name, server, pass)| (name, server.to_owned(), pass)));
        assert_eq!(sites[0].hosts(), ["example.com"]);
        assert!(sites[1].hosts().is_empty());
    }

    #[test]
    fn a_reverse_proxy_obeys_cdn_cache_control_and_tells_of_its_clients() {
        let of = |text: &str| {
            let options = options(text);
            (options.semantics.targets.len(), options.forwarded.add.len())
        };
        assert_eq!(of(""), (0, 0));
        assert_eq!(of("reverse = 'http://a'"), (1, 3));
        let site = "[[site]]\nhosts = ['a']\nupstream = 'http://a'";
        assert_eq!(of(site), (1, 3));
        let none = "reverse = 'http://a'\n[caching]\ntargets = []\n[forwarded]\nadd = []";
        assert_eq!(of(none), (0, 0));
        let both = "[caching]\ntargets = ['a', 'b']\n[forwarded]\nadd = 'forwarded'";
        assert_eq!(of(both), (2, 1));
    }
}
