//! Warnings about settings that are allowed but probably unintended, and remarks for the operator.

use semantics::Sharing;

use crate::config::configuration::{Config, Site};
use crate::config::value::Value;

impl Config {
    /// Returns a remark on which responses are not stored to protect identified clients, in the
    /// words that `larder explain` uses.
    pub fn note_on_sharing(&self) -> &'static str {
        match self.semantics.sharing {
            Sharing::Careful => {
                "sharing is careful: responses to requests with Cookie (cookie) or other fields \
                 that identify a client (identified) need a stated positive lifetime to be stored"
            }
            Sharing::Rfc => "sharing is rfc: everything that RFC 9111 permits is stored",
        }
    }

    /// Returns the remark about sites that store responses with Set-Cookie, if there are any.
    pub fn cookie_remark(&self) -> Option<String> {
        let named = |site: &Site| site.called().unwrap_or("without a name").to_owned();
        // Files set no cookies.
        let served = self.sites.iter().filter(|site| site.root.is_none());
        let mut sites: Vec<String> = served.map(named).collect();
        if self.reverse.is_some() {
            sites.push("of reverse".to_owned());
        }
        let settings = self.sharing.settle(self.semantics.clone());
        if !settings.store_set_cookie || sites.is_empty() {
            return None;
        }
        let which = if sites.len() == 1 { "site" } else { "sites" };
        let sites = sites.join(", ");
        Some(format!(
            "{which} {sites}: a response with Set-Cookie is stored with its cookie if the origin \
             server states a shared lifetime; all clients then get that cookie. If an origin \
             server does so by mistake, set caching.store-set-cookie = false \
             (docs/guide/security.md)"
        ))
    }

    /// Returns warnings about settings that are allowed but probably unintended.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let is_reverse = self.is_reverse();
        if is_reverse && !self.allow.is_empty() {
            let text = "allow has no effect: a reverse proxy is open to all clients";
            warnings.push(text.to_owned());
        }
        if let Some(all) = self.allow.iter().find(|network| network.prefix_len() == 0)
            && !is_reverse
        {
            warnings.push(format!("allow includes {all}: this is an open proxy"));
        }
        if self.upstream_settings.is_unverified() {
            let text = "upstream.tls-verify is false: ANYONE CAN IMPERSONATE AN ORIGIN SERVER; \
                        their responses are stored and served";
            warnings.push(text.to_owned());
        }
        for site in self.sites.iter().filter(|site| site.says_unverified()) {
            let name = site.called().unwrap_or_default();
            warnings.push(format!(
                "site {name}: tls-verify is false: ANYONE CAN IMPERSONATE ITS ORIGIN SERVERS; \
                 their responses are stored and served"
            ));
        }
        warnings.extend(self.sites.iter().filter_map(Site::host_warning));
        warnings.extend(self.idle_rules());
        warnings.extend(self.idle_classes());
        warnings.extend(self.loose_classes());
        warnings.extend(self.unkeyed_edits());
        warnings.extend(self.fleet.warnings());
        if !self.certificates.is_empty() && !self.speaks_tls() {
            warnings.push("there are certificates, but no [[listener]] has tls = true".to_owned());
        }
        warnings
    }
}

impl Site {
    /// Returns whether the site itself disables the verification of its servers.
    fn says_unverified(&self) -> bool {
        self.own.iter().any(|own| (own.key, &own.value) == ("tls-verify", &Value::Bool(false)))
    }

    /// Returns a warning if an origin server may receive an unexpected `Host`, unless the operator
    /// has set `key-host`.
    fn host_warning(&self) -> Option<String> {
        let told = self.pass_host && self.hosts.len() > 1;
        (told && self.key_host.is_none()).then(|| {
            let (name, first) = (self.called().unwrap_or_default(), &self.hosts[0]);
            format!(
                "site {name}: its hosts share cached objects, and GET requests carry {first} as \
                 Host whichever host the client names; set key-host = \"site\" to confirm, or \
                 key-host = \"client\" if the origin servers distinguish the hosts (for example \
                 by redirecting between them)"
            )
        })
    }
}
