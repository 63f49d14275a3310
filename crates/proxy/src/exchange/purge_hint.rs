//! Hint for a purge that found nothing: stored URLs that are easily confused with the given one.

use net::address::bare;
use semantics::Url;

use crate::object::store::Store;
use crate::options::Options;
use crate::origin::site::{Front, Site};
use crate::request::purge_names::all_names;
use crate::rules::aliases::Aliases;

/// Maximum number of site hosts to try.
const HOSTS_TRIED: usize = 16;
/// Maximum number of names to look up; each URL has one at every site.
const NAMES_TRIED: usize = 4096;
/// Maximum number of stored URLs in a hint.
const NAMED: usize = 4;
/// Common ports of web servers and proxies.
const PORTS: [u16; 7] = [80, 443, 8080, 8443, 8000, 3000, 3128];

/// Returns a sentence on the stored URLs that may have been meant by `url`.
pub(super) fn hint(store: &Store, options: &Options, url: &Url) -> String {
    let is_stored = |url: &Url| {
        let names = all_names(options, url);
        names.is_some_and(|names| names.iter().any(|name| store.knows(&name.key)))
    };
    let tried = NAMES_TRIED / options.front.sites().len().max(1);
    let near = near(&options.front, url).into_iter().take(tried.max(NAMED));
    let mut stored: Vec<String> = Vec::new();
    for other in near.filter(is_stored) {
        // One lookup covers both schemes of a name.
        stored.push(other.as_str().to_owned());
        if stored.len() == NAMED {
            break;
        }
    }
    match &stored[..] {
        [] => unstored(&options.front, url),
        [one] => format!("{one} is stored: did you mean that one?"),
        several => format!("stored are {}: did you mean one of them?", several.join(", ")),
    }
}

/// Returns URLs that are easily confused with `url`, the likeliest first: with or without a final
/// slash, with or without a query, under other spellings of its host, on other ports, and on other
/// hosts of the sites.
fn near(front: &Front, url: &Url) -> Vec<Url> {
    let (path, query) = match url.path_and_query().split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (url.path_and_query(), None),
    };
    let turned = path.strip_suffix('/').map_or_else(|| format!("{path}/"), str::to_owned);
    let mut paths = vec![query.map_or_else(|| turned.clone(), |query| format!("{turned}?{query}"))];
    if query.is_some() {
        paths.extend([path.to_owned(), turned]);
    }
    let mut all = Vec::new();
    let mut add = |authority: &str, path: &str| {
        if let Ok(other) = Url::new(url.scheme(), authority, path)
            && other != *url
            && !all.contains(&other)
        {
            all.push(other);
        }
    };
    paths.iter().for_each(|path| add(url.authority(), path));
    for authority in authorities(front, url) {
        add(&authority, url.path_and_query());
    }
    all
}

/// Returns the authorities that may have been meant instead of that of `url`.
fn authorities(front: &Front, url: &Url) -> Vec<String> {
    let (host, port) = Aliases::split(url.authority());
    let is_name = bare(host).parse::<std::net::IpAddr>().is_err();
    let plain = host.strip_suffix('.').unwrap_or(host);
    let other = match plain.strip_prefix("www.") {
        Some(rest) => rest.to_owned(),
        None => format!("www.{plain}"),
    };
    let mut hosts = vec![host.to_owned()];
    if is_name {
        hosts.extend([plain.to_owned(), format!("{plain}."), other]);
    }
    let in_url = |host: &String| match host.contains(':') {
        true => format!("[{host}]"),
        false => host.clone(),
    };
    let ports = std::iter::once(None).chain(PORTS.map(Some)).chain([port]);
    let spelled = ports.flat_map(|port| {
        hosts.iter().map(move |host| match port {
            Some(port) => format!("{host}:{port}"),
            None => host.clone(),
        })
    });
    let of_sites = front.sites().iter().flat_map(Site::hosts).take(HOSTS_TRIED).map(in_url);
    spelled.chain(of_sites).collect()
}

/// Returns a sentence on the name that an object of `url` would have.
fn unstored(front: &Front, url: &Url) -> String {
    let host = bare(Aliases::split(url.authority()).0);
    if url.as_str().contains('*') {
        return "a * stands for anything only at the end of a URL".to_owned();
    }
    let Some(site) = front.site_of_url(url) else {
        return match front.is_claimed(host) {
            true => format!("no site with the host {host} is for that path"),
            false => format!("no site has the host {host}"),
        };
    };
    match (site.name(), site.aliases().canonical(0, 0)) {
        (Some(site), Some((name, _))) => {
            format!("host, path and query count, as the site {site} names it: by the host {name}")
        }
        (Some(_), None) => {
            "host, port, path and query count, as the client named them in its request".to_owned()
        }
        (None, _) => "host, port, path and query count, as the client named them".to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn other_spellings_of_a_name_are_suggested() {
        let near = |text: &str| {
            let url = Url::parse(text).unwrap();
            let all = near(&Front::forward(), &url);
            assert!(!all.contains(&url));
            all.iter().map(|url| url.as_str().to_owned()).collect::<Vec<_>>()
        };
        let names = near("http://www.a.example/x?q");
        for expected in [
            "http://www.a.example/x/?q",
            "http://www.a.example/x",
            "http://www.a.example/x/",
            "http://a.example/x?q",
            "http://www.a.example:8080/x?q",
            "http://a.example:443/x?q",
        ] {
            assert!(names.iter().any(|name| name == expected), "{expected}: {names:?}");
        }
        let names = near("https://a.example:8443/");
        assert!(names.contains(&"https://a.example/".to_owned()), "{names:?}");
        assert!(names.contains(&"https://www.a.example:8443/".to_owned()), "{names:?}");
        let names = near("http://[::1]:81/");
        assert!(names.contains(&"http://[::1]/".to_owned()), "{names:?}");
        assert!(!names.iter().any(|name| name.contains("www")), "{names:?}");
    }
}
