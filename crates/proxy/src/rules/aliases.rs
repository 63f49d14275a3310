//! Aliases of one site: which of its names count as one for the cache, and by which names an
//! operator may purge it.
//!
//! Guarantee: the origin server never sees a difference between requests that share a key. If the
//! hosts of a site count as one, every request is treated from the start as a request for the first
//! of them. Its key, its rules, and the `Host` and `X-Forwarded-Host` sent upstream follow from
//! that name. A response shared by all hosts therefore answers the same request, and no client can
//! store a response for the others that depends on its own `Host`.

use net::address::bare;
use semantics::Url;

/// Names of one site. By default there are none, and each host is a site of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aliases {
    /// The hosts as written in URLs.
    hosts: Vec<String>,
    are_one: bool,
    /// True if all other hosts count as the first of `hosts`.
    every: bool,
    /// The ports of the proxy's listeners.
    ports: Vec<u16>,
    /// True if all other ports count as these.
    every_port: bool,
}

impl Aliases {
    /// Creates the aliases from hosts (IPv6 addresses without brackets). They count as the first
    /// one, on every port of the proxy's listeners, unless `are_one` is false.
    pub fn new(hosts: &[String], are_one: bool, ports: &[u16]) -> Aliases {
        let in_url = |host: &String| match host.contains(':') {
            true => format!("[{host}]"),
            false => host.clone(),
        };
        let hosts = hosts.iter().map(in_url).collect();
        Aliases { hosts, are_one, every: false, ports: ports.to_vec(), every_port: false }
    }

    /// Creates the aliases of a site where every host and port counts as one, because its responses
    /// do not depend on them.
    pub fn of_every_host(ports: &[u16]) -> Aliases {
        let ours = Aliases::new(&["localhost".to_owned()], true, ports);
        Aliases { every: true, ..ours }.with_every_port()
    }

    /// Makes every port count as those of the listeners, because responses do not depend on the
    /// port.
    #[must_use]
    pub fn with_every_port(self) -> Aliases {
        Aliases { every_port: true, ..self }
    }

    fn has_port(&self, port: u16) -> bool {
        self.every_port || self.ports.contains(&port)
    }

    fn includes(&self, host: &str) -> bool {
        self.every || self.hosts.iter().any(|ours| ours == host)
    }

    /// Splits an authority in normal form into the host and the port, if it has one.
    pub fn split(authority: &str) -> (&str, Option<u16>) {
        match authority.rsplit_once(':') {
            Some((host, port)) if bare(host) != host || !host.contains(':') => {
                (host, port.parse().ok())
            }
            _ => (authority, None),
        }
    }

    /// Returns whether all hosts count as one.
    pub(crate) fn are_one(&self) -> bool {
        self.are_one && !self.hosts.is_empty()
    }

    /// Returns the host and port that a request to `port` counts for; `None` for a part that the
    /// request names itself.
    pub(crate) fn canonical(&self, port: u16, default: u16) -> Option<(&str, u16)> {
        let host = self.hosts.first().filter(|_| self.are_one)?;
        Some((host, if self.has_port(port) { default } else { port }))
    }

    /// Returns the URL that `url` counts as, in normal form.
    pub(crate) fn one(&self, url: Url) -> Url {
        let (host, port) = Self::split(url.authority());
        if !self.includes(host) {
            return url;
        }
        let default = if url.scheme() == "https" { 443 } else { 80 };
        let Some((host, port)) = self.canonical(port.unwrap_or(default), default) else {
            return url;
        };
        // `Url::new` removes the default port.
        Url::new(url.scheme(), &format!("{host}:{port}"), url.sent()).unwrap_or(url)
    }

    /// Returns every host and port that an object of `url` may have been stored under: the given
    /// one and, if `url` belongs to this site, its other names. These include names that do not
    /// count as one now, since they may have done so before or may again.
    pub fn authorities(&self, url: &Url) -> Vec<String> {
        let mut all = vec![url.authority().to_owned()];
        let (host, port) = Self::split(url.authority());
        let is_ours = self.hosts.is_empty() || self.includes(host);
        if !is_ours {
            return all;
        }
        let single = [host.to_owned()];
        let hosts = if self.are_one { &self.hosts[..] } else { &single[..] };
        let ours = port.is_none_or(|port| self.has_port(port));
        let own = self.ports.iter().filter(|_| ours).copied().map(Some);
        let ports: Vec<Option<u16>> = match ours {
            true => std::iter::once(None).chain(own).collect(),
            false => vec![port],
        };
        for host in hosts {
            for port in &ports {
                let name = port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
                if !all.contains(&name) {
                    all.push(name);
                }
            }
        }
        all
    }

    /// Returns the URLs that responses for `url` are stored under now, and `url` itself. Fewer than
    /// [`Aliases::authorities`], for callers that store each of them.
    pub(crate) fn urls(&self, url: &Url) -> Vec<Url> {
        if self.are_one {
            let one = self.one(url.clone());
            return if one == *url { vec![one] } else { vec![url.clone(), one] };
        }
        let named = self.authorities(url).into_iter();
        named.filter_map(|name| Url::new(url.scheme(), &name, url.sent()).ok()).collect()
    }

    /// Returns the host that responses are stored under if another name of the site fulfils
    /// `is_meant`, or if any host is one.
    pub(crate) fn host_where(&self, is_meant: impl Fn(&str) -> bool) -> Option<&str> {
        let first = self.hosts.first().filter(|_| self.are_one)?;
        let is_other = self.every || self.hosts.iter().any(|host| is_meant(host));
        (is_other && !is_meant(first)).then_some(first)
    }

    /// Returns the hosts that responses for `host` (with or without a port) are stored under now,
    /// and `host` itself.
    pub(crate) fn hosts(&self, host: &str) -> Vec<String> {
        let (name, port) = Self::split(host);
        let mut all = vec![host.to_owned()];
        if let Some(first) = self.hosts.first().filter(|_| self.are_one)
            && self.includes(name)
        {
            let port = port.filter(|port| !self.has_port(*port));
            all.push(port.map_or_else(|| first.clone(), |port| format!("{first}:{port}")));
        }
        all
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn aliases(are_one: bool) -> Aliases {
        let hosts = ["www.test", "localhost", "::1"].map(str::to_owned);
        Aliases::new(&hosts, are_one, &[8080, 8443])
    }

    #[test]
    fn the_hosts_and_ports_of_a_site_count_as_one() {
        let ours = aliases(true);
        assert_eq!(ours.canonical(8443, 443), Some(("www.test", 443)));
        assert_eq!(ours.canonical(443, 443), Some(("www.test", 443)));
        // A port that is not configured makes a separate name.
        assert_eq!(ours.canonical(99, 443), Some(("www.test", 99)));
        assert_eq!(aliases(false).canonical(8443, 443), None);
        assert_eq!(Aliases::default().canonical(80, 80), None);
        let one = |text: &str| ours.one(Url::parse(text).unwrap()).to_string();
        assert_eq!(one("https://localhost:8080/x?y"), "https://www.test/x?y");
        assert_eq!(one("http://[::1]/"), "http://www.test/");
        assert_eq!(one("http://localhost:99/"), "http://www.test:99/");
        assert_eq!(one("http://other.test:8080/"), "http://other.test:8080/");
        let v6 = Aliases::new(&["::1".to_owned()], true, &[]);
        assert_eq!(v6.canonical(80, 80), Some(("[::1]", 80)));
    }

    #[test]
    fn every_host_may_count_as_one() {
        let ours = Aliases::of_every_host(&[8080]);
        let one = |text: &str| ours.one(Url::parse(text).unwrap()).to_string();
        assert_eq!(one("http://any.test:8080/x"), "http://localhost/x");
        assert_eq!(one("http://localhost/x"), "http://localhost/x");
        assert_eq!(one("http://any.test:99/x"), "http://localhost/x");
        assert_eq!(one("https://any.test:99/x"), "https://localhost/x");
        assert_eq!(ours.hosts("any.test:99"), ["any.test:99", "localhost"]);
        let url = Url::parse("http://any.test:99/").unwrap();
        let all = ["any.test:99", "localhost", "localhost:8080"];
        assert_eq!(ours.authorities(&url), all);
        assert_eq!(ours.hosts("any.test"), ["any.test", "localhost"]);
        let url = Url::parse("http://any.test/").unwrap();
        assert_eq!(ours.authorities(&url), ["any.test", "localhost", "localhost:8080"]);
        assert_eq!(ours.urls(&url).len(), 2);
    }

    #[test]
    fn each_name_of_a_site_leads_to_all_of_them() {
        let of = |aliases: &Aliases, text: &str| {
            let mut all = aliases.authorities(&Url::parse(text).unwrap());
            all.sort();
            all
        };
        let nine = of(&aliases(true), "http://www.test/x");
        assert_eq!(nine.len(), 9);
        for url in ["http://localhost:8080/x", "http://[::1]/x", "http://[::1]:8443/x"] {
            assert_eq!(of(&aliases(true), url), nine, "{url}");
        }
        assert_eq!(
            of(&aliases(true), "http://www.test:99/"),
            ["[::1]:99", "localhost:99", "www.test:99"]
        );
        assert_eq!(of(&aliases(true), "http://other.test/"), ["other.test"]);
        let apart = ["localhost", "localhost:8080", "localhost:8443"];
        assert_eq!(of(&aliases(false), "http://localhost/"), apart);
        assert_eq!(of(&Aliases::default(), "http://any.test:81/"), ["any.test:81"]);
    }

    #[test]
    fn stored_responses_have_the_name_in_use() {
        let ours = aliases(true);
        assert_eq!(ours.hosts("localhost"), ["localhost", "www.test"]);
        assert_eq!(ours.hosts("[::1]:8080"), ["[::1]:8080", "www.test"]);
        assert_eq!(ours.hosts("localhost:99"), ["localhost:99", "www.test:99"]);
        assert_eq!(ours.hosts("other.test:8080"), ["other.test:8080"]);
        assert_eq!(aliases(false).hosts("localhost"), ["localhost"]);
        let urls = |aliases: &Aliases, text: &str| {
            let urls = aliases.urls(&Url::parse(text).unwrap());
            urls.iter().map(Url::to_string).collect::<Vec<_>>()
        };
        let both = ["http://localhost:8080/x", "http://www.test/x"];
        assert_eq!(urls(&ours, "http://localhost:8080/x"), both);
        assert_eq!(urls(&ours, "http://www.test/x"), ["http://www.test/x"]);
        assert_eq!(urls(&ours, "http://other.test/x"), ["http://other.test/x"]);
        assert_eq!(urls(&aliases(false), "http://localhost/x").len(), 3);
    }
}
