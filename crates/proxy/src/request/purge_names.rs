//! The names and keys that one URL may be stored under.

use semantics::Url;
use store::{Key, LoggedPurge, Mode, PurgedTarget};

use crate::object::ban::Ban;
use crate::object::purge_labels;
use crate::options::Options;
use crate::request::purge_order::{Purge, Scope};

/// Name and key that a URL may be stored under.
pub(crate) struct Name<'a> {
    pub front: &'a str,
    pub url: Url,
    pub key: Key,
}

/// Returns every name, by front, scheme, alias and rule, that an object of `url` may be stored
/// under. Returns `None` if one is too long for a key.
pub(crate) fn all_names<'a>(options: &'a Options, url: &Url) -> Option<Vec<Name<'a>>> {
    let mut all: Vec<Name<'a>> = Vec::new();
    for site in options.front.sites() {
        let authorities = site.aliases().authorities(url);
        let schemed = ["http", "https"].into_iter().flat_map(|scheme| {
            authorities.iter().map(move |authority| (scheme, authority.as_str()))
        });
        for (scheme, authority) in schemed {
            let Ok(url) = Url::new(scheme, authority, url.sent()) else { continue };
            let spellings = url.spellings();
            for url in spellings.iter().flat_map(|url| options.rules.names(site.name(), url)) {
                let (key, front) = (site.key(&url)?, site.name().unwrap_or("forward"));
                // Equal names of one object count once.
                if !all.iter().any(|known| known.front == front && known.url == url) {
                    all.push(Name { front, url, key });
                }
            }
        }
    }
    Some(all)
}

/// Returns the targets of a purge by anything but a URL, under every front.
pub(crate) fn targets(options: &Options, scope: &Scope) -> Vec<PurgedTarget> {
    let of = PurgedTarget::of;
    let front = &options.front;
    match scope {
        Scope::Url(_) => Vec::new(),
        Scope::Prefix(url) => {
            front.urls(url).iter().map(|url| of(&purge_labels::of_prefix(url))).collect()
        }
        Scope::Host(host) => {
            let hosts = front.hosts(host.as_str());
            hosts.iter().map(|host| of(&purge_labels::of_host(host))).collect()
        }
        Scope::Ban(ban) => vec![PurgedTarget::Pattern(stored_hosts(options, ban).text().into())],
        Scope::Tags(tags) => tags.iter().map(|tag| of(&purge_labels::of_tag(tag))).collect(),
        Scope::Everything => vec![PurgedTarget::Everything],
    }
}

/// Returns a ban with the hosts that responses for those it means are stored under.
fn stored_hosts(options: &Options, ban: &Ban) -> Ban {
    let front = &options.front;
    let mut hosts: Vec<String> = ban.hosts.iter().flat_map(|host| front.hosts(host)).collect();
    if let (Some(_), Ok(read)) = (&ban.host_regex, ban.compiled()) {
        hosts.extend(front.hosts_where(|host| read.matches_host(host)));
    }
    hosts.sort_unstable();
    hosts.dedup();
    Ban { hosts, ..ban.clone() }
}

/// Returns what a purge that is named by a URL, or by a message of the stream, concerns here;
/// `None` if that is nothing.
fn named(options: &Options, name: &[u8], mode: Mode) -> Option<Vec<PurgedTarget>> {
    let text = std::str::from_utf8(name).ok()?;
    let scope = match Url::parse(text) {
        Ok(url) => Scope::Url(url),
        Err(_) => Purge::read_json(name).ok()?.scope,
    };
    let Scope::Url(url) = &scope else { return Some(targets(options, &scope)) };
    let names = all_names(options, url)?.into_iter();
    Some(match mode {
        Mode::Hard => names.map(|name| PurgedTarget::Key(name.key)).collect(),
        Mode::Soft => {
            names.map(|name| PurgedTarget::of(&purge_labels::of_url(&name.url))).collect()
        }
    })
}

/// Returns the purges that those by a name mean here. Other purges, and those of URLs under which
/// nothing can be stored, are returned as they are.
pub(crate) fn with_keys(options: &Options, purges: &[LoggedPurge]) -> Vec<LoggedPurge> {
    let mut all = Vec::with_capacity(purges.len());
    for purge in purges {
        let targets = match &purge.target {
            PurgedTarget::Name(name) => named(options, name, purge.mode),
            _ => None,
        };
        match targets {
            None => all.push(purge.clone()),
            Some(targets) => {
                all.extend(targets.into_iter().map(|target| LoggedPurge { target, ..*purge }));
            }
        }
    }
    all
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::observe::front_kind::FrontKind;
    use crate::origin::site::Front;
    use crate::rules::access::Access;

    /// Returns what a purge by `name` means for a forward proxy.
    fn meant(name: &str, mode: Mode) -> Vec<String> {
        let access = Access::new(FrontKind::Forward, Default::default());
        let options = Options::new(Front::forward(), access.into());
        let target = PurgedTarget::Name(Bytes::copy_from_slice(name.as_bytes()));
        let meant = with_keys(&options, &[LoggedPurge { target, mode, at: 7 }]);
        assert!(meant.iter().all(|meant| (meant.mode, meant.at) == (mode, 7)));
        let words = |meant: LoggedPurge| {
            let name = String::from_utf8_lossy(meant.target.name()).into_owned();
            match meant.target {
                PurgedTarget::Everything => "everything".to_owned(),
                PurgedTarget::Label { kind, .. } => format!("{} {name}", char::from(kind)),
                PurgedTarget::Prefix(_) => format!("prefix {name}"),
                PurgedTarget::Pattern(_) => format!("pattern {name}"),
                PurgedTarget::Key(_) => "key".to_owned(),
                PurgedTarget::Name(_) => format!("name {name}"),
            }
        };
        meant.into_iter().map(words).collect()
    }

    #[test]
    fn a_name_means_what_its_url_or_its_message_says() {
        for (name, mode, expected) in [
            ("http://a.example/x", Mode::Hard, &["key", "key"][..]),
            (r#"{"url": "http://a.example/x"}"#, Mode::Hard, &["key", "key"]),
            (
                r#"{"url": "http://a.example/x", "soft": true}"#,
                Mode::Soft,
                &["u a.example/x", "u a.example/x"],
            ),
            (r#"{"url": "http://a.example/x*"}"#, Mode::Hard, &["prefix a.example/x"]),
            (r#"{"host": "a.example"}"#, Mode::Soft, &["h a.example"]),
            (r#"{"tags": ["red", "blue"]}"#, Mode::Hard, &["t red", "t blue"]),
            (
                r#"{"regex": "^/x", "host": "a.example"}"#,
                Mode::Hard,
                &[r#"pattern {"regex":"^/x","hosts":["a.example"]}"#],
            ),
            (r#"{"everything": true}"#, Mode::Hard, &["everything"]),
            ("", Mode::Hard, &["name "]),
            (r#"{"url": 1}"#, Mode::Hard, &[r#"name {"url": 1}"#]),
        ] {
            assert_eq!(meant(name, mode), expected, "{name}");
        }
    }
}
