//! The names and keys that one URL may be stored under.

use semantics::Url;
use store::Key;

use crate::options::Options;

/// Name and key that a URL may be stored under.
pub(super) struct Name<'a> {
    pub front: &'a str,
    pub url: Url,
    pub key: Key,
}

/// Returns every name, by front, scheme, alias and rule, that an object of `url` may be stored
/// under. Returns `None` if one is too long for a key.
pub(super) fn all_names<'a>(options: &'a Options, url: &Url) -> Option<Vec<Name<'a>>> {
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
