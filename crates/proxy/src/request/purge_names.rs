//! The names and keys that one URL may be stored under.

use semantics::Url;
use store::{Key, LoggedPurge, PurgedTarget};

use crate::options::Options;

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

/// Returns the purges of keys that the purge of a URL by its name means here. Other purges, and
/// those of URLs under which nothing can be stored, are returned as they are.
pub(crate) fn with_keys(options: &Options, purges: &[LoggedPurge]) -> Vec<LoggedPurge> {
    let mut all = Vec::with_capacity(purges.len());
    for purge in purges {
        let names = match &purge.target {
            PurgedTarget::Name(name) => {
                let url = std::str::from_utf8(name).ok().and_then(|text| Url::parse(text).ok());
                url.and_then(|url| all_names(options, &url))
            }
            _ => None,
        };
        let Some(names) = names else {
            all.push(purge.clone());
            continue;
        };
        let of_key = |name: Name<'_>| PurgedTarget::Key(name.key);
        all.extend(names.into_iter().map(|name| LoggedPurge { target: of_key(name), ..*purge }));
    }
    all
}
