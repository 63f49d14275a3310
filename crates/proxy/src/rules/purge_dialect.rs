//! The purge dialect: methods that purge, and request fields that say what and how.

use std::str::FromStr;

use http::{HeaderName, Method};

/// Methods that purge, and the meaning of request fields besides those that carry tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeDialect {
    /// The methods. Default [`METHODS`].
    pub methods: Vec<PurgeMethod>,
    /// The fields. Default [`FIELDS`].
    pub fields: Vec<PurgeField>,
}

/// The methods that plug-ins of content management systems send.
pub const METHODS: [&str; 8] = [
    "PURGE",
    "BAN=ban",
    "URIBAN=url",
    "PURGEKEYS=tags",
    "PURGETAGS=tags",
    "FULLBAN=everything",
    "PURGEALL=everything",
    "XCGFULLBAN=everything",
];

/// The fields that plug-ins of content management systems send.
pub const FIELDS: [&str; 18] = [
    "soft-purge=soft",
    "fastly-soft-purge=soft",
    "x-purge-method=method",
    "x-vc-purge-method=method",
    "x-vc-purge-host=host",
    "x-purge-regex=url-regex",
    "x-ban-regex=url-regex",
    "x-ban-url=url-regex",
    "x-url=url-regex",
    "x-ban-host=host-regex",
    "x-host=host-regex",
    "x-content-type=regex:content-type",
    "x-ban-content-type=regex:content-type",
    "x-pool=regex:x-pool",
    "x-site=regex:x-site",
    "x-magento-tags-pattern=tags-regex:x-magento-tags",
    "xkey-purge=tags:xkey",
    "xkey-softpurge=soft-tags:xkey",
];

impl Default for PurgeDialect {
    fn default() -> PurgeDialect {
        PurgeDialect {
            methods: METHODS.iter().filter_map(|text| text.parse().ok()).collect(),
            fields: FIELDS.iter().filter_map(|text| text.parse().ok()).collect(),
        }
    }
}

impl PurgeDialect {
    /// Returns the scope that a method asks for, if it is one of the dialect.
    pub(crate) fn verb(&self, method: &Method) -> Option<Verb> {
        self.methods.iter().find(|known| known.name == *method).map(|known| known.verb)
    }

    /// Returns the names of the fields with a meaning.
    pub(crate) fn names(&self, meaning: &Meaning) -> impl Iterator<Item = &str> {
        let of = move |field: &&PurgeField| field.meaning == *meaning;
        self.fields.iter().filter(of).map(|field| field.name.as_str())
    }
}

/// Scope that a purge method asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The URL, or the scope that the fields name.
    Purge,
    /// The scope that the fields name, or the URL as a regular expression.
    Ban,
    /// The URL.
    Url,
    /// The tags that the fields carry.
    Tags,
    /// Everything.
    Everything,
}

/// A method that purges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeMethod {
    name: Method,
    verb: Verb,
}

impl PurgeMethod {
    /// Returns the method's name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }
}

impl FromStr for PurgeMethod {
    type Err = ();

    /// Reads `METHOD` or `METHOD=SCOPE`.
    fn from_str(text: &str) -> Result<PurgeMethod, ()> {
        let (name, verb) = text.split_once('=').unwrap_or((text, "purge"));
        let name = Method::from_bytes(name.as_bytes()).map_err(|_| ())?;
        let of_rfc = [
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::OPTIONS,
            Method::TRACE,
            Method::CONNECT,
            Method::PATCH,
        ];
        let verb = match verb {
            _ if of_rfc.contains(&name) => return Err(()),
            "purge" => Verb::Purge,
            "ban" => Verb::Ban,
            "url" => Verb::Url,
            "tags" => Verb::Tags,
            "everything" => Verb::Everything,
            _ => return Err(()),
        };
        Ok(PurgeMethod { name, verb })
    }
}

/// Meaning of a request field of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Any value but `0` asks for a soft purge.
    Soft,
    /// How to read the URL: `default`, `exact`, `regex` or `ban-regex`.
    Method,
    /// The host of the URL, in place of that of the request.
    Host,
    /// A regular expression for the path with its query.
    UrlRegex,
    /// A regular expression for the host.
    HostRegex,
    /// A regular expression for a response field.
    Regex(HeaderName),
    /// A regular expression for a response field with tags; `.*` stands for everything.
    TagsRegex(HeaderName),
    /// Tags, written as in this response field.
    Tags(HeaderName),
    /// Tags, for a soft purge.
    SoftTags(HeaderName),
}

/// A request field that says what or how to purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeField {
    pub(crate) name: HeaderName,
    pub(crate) meaning: Meaning,
}

impl PurgeField {
    /// Returns the field's name.
    pub fn name(&self) -> &HeaderName {
        &self.name
    }
}

impl FromStr for PurgeField {
    type Err = ();

    /// Reads `FIELD=MEANING` or `FIELD=MEANING:RESPONSE-FIELD`.
    fn from_str(text: &str) -> Result<PurgeField, ()> {
        let (name, meaning) = text.split_once('=').ok_or(())?;
        let of = |name: &str| name.parse::<HeaderName>().map_err(|_| ());
        let meaning = match meaning.split_once(':').unwrap_or((meaning, "")) {
            ("soft", "") => Meaning::Soft,
            ("method", "") => Meaning::Method,
            ("host", "") => Meaning::Host,
            ("url-regex", "") => Meaning::UrlRegex,
            ("host-regex", "") => Meaning::HostRegex,
            ("regex", field) => Meaning::Regex(of(field)?),
            ("tags-regex", field) => Meaning::TagsRegex(of(field)?),
            ("tags", field) => Meaning::Tags(of(field)?),
            ("soft-tags", field) => Meaning::SoftTags(of(field)?),
            _ => return Err(()),
        };
        Ok(PurgeField { name: of(name)?, meaning })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_dialect_is_understood_and_mistakes_are_not() {
        let dialect = PurgeDialect::default();
        assert_eq!((dialect.methods.len(), dialect.fields.len()), (METHODS.len(), FIELDS.len()));
        for wrong in ["", "GET", "POST=everything", "PURGE=all", "A B=url"] {
            assert!(wrong.parse::<PurgeMethod>().is_err(), "{wrong}");
        }
        for wrong in ["x", "x=", "x=all", "x=soft:y", "x=regex", "x=regex:", "x=tags:a b", "=soft"]
        {
            assert!(wrong.parse::<PurgeField>().is_err(), "{wrong}");
        }
    }
}
