//! Under which keys the objects of pages are stored.

use larder_store::{Key, Locality};
use testkit::pages::page_of;

/// Information that the engine gets about related objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// A page and what is embedded in it share a directory.
    Pages,
    /// Nothing: every object has a directory of its own. They are asked for as before.
    Random,
}

impl Keys {
    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Keys> {
        match name {
            "pages" => Some(Keys::Pages),
            "random" => Some(Keys::Random),
            _ => None,
        }
    }

    /// The key of an object.
    pub fn key(self, object: u64) -> Key {
        let page = page_of(object);
        let group = match self {
            Keys::Pages => page,
            Keys::Random => object,
        };
        let url = format!("f http://site{}.example/{page}/object-{object}", page % 1000);
        Key::new(url.into(), Locality { site: group % 1000, group }).unwrap()
    }
}
