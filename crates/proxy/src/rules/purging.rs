//! Options of purging.

/// The clients that may use the method `PURGE`, and the fields that carry tags.
#[derive(Clone, Debug)]
pub struct Purging {
    /// Networks of clients that may. Default none: then it is passed on like any other method.
    pub from: Vec<ipnet::IpNet>,
    /// The fields of answers, and of `PURGE`, that carry tags. Those that the store was opened with
    /// count for what is stored.
    pub tags: semantics::TagFields,
    /// Whether clients see those fields of answers. Default true; the command line hides them
    /// behind a reverse proxy.
    pub pass_tags: bool,
}

impl Default for Purging {
    fn default() -> Self {
        Purging { from: Vec::new(), tags: semantics::TagFields::default(), pass_tags: true }
    }
}
