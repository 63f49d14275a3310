//! Content codings, and those that a client accepts.

use semantics::{Fields, coding};

/// A content coding (RFC 9110, 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Brotli (RFC 7932), `.br`.
    Brotli,
    /// Zstandard (RFC 8878), `.zst`.
    Zstd,
    /// gzip (RFC 1952), `.gz`.
    Gzip,
}

impl Coding {
    /// All codings, in the order of how small they make files compressed ahead of time. Between
    /// codings that a client prefers equally, the first one is used.
    pub const ALL: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    /// Returns the coding's name in `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// Returns the extension appended to the file's name.
    pub const fn extension(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }
}

/// The codings that a client accepts, in order of preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Accepted([Option<Coding>; Coding::ALL.len()]);

impl Accepted {
    /// No coding at all.
    pub const NONE: Accepted = Accepted([None; Coding::ALL.len()]);

    /// Creates a list, without repeated codings.
    pub fn new(codings: impl IntoIterator<Item = Coding>) -> Accepted {
        let mut list = Accepted::NONE;
        for coding in codings {
            if list.iter().all(|known| known != coding)
                && let Some(free) = list.0.iter_mut().find(|place| place.is_none())
            {
                *free = Some(coding);
            }
        }
        list
    }

    /// Parses `Accept-Encoding` (RFC 9110, 12.5.3) from a request's fields.
    pub fn of(fields: &impl Fields) -> Accepted {
        let preferred = coding::preferred(fields, &Coding::ALL.map(Coding::name));
        let named = |name: &str| Coding::ALL.into_iter().find(|coding| coding.name() == name);
        Accepted::new(preferred.into_iter().filter_map(named))
    }

    /// Returns a canonical `Accept-Encoding` value for the list, which parses back to the same
    /// list; `None` if the list is empty.
    pub fn to_field(self) -> Option<String> {
        let weights = ["", ";q=0.9", ";q=0.8"];
        let members = self.iter().zip(weights).map(|(coding, q)| format!("{}{q}", coding.name()));
        let members: Vec<String> = members.collect();
        (!members.is_empty()).then(|| members.join(", "))
    }

    /// Returns the codings in order of preference.
    pub fn iter(self) -> impl Iterator<Item = Coding> {
        self.0.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn accepted_codings_come_from_the_field_in_their_order() {
        let cases: [(&str, &[Coding]); 4] = [
            ("gzip, deflate, br, zstd", &[Coding::Brotli, Coding::Zstd, Coding::Gzip]),
            ("gzip, br;q=0.5", &[Coding::Gzip, Coding::Brotli]),
            ("compress", &[]),
            ("br;q=0, *;q=0.1", &[Coding::Zstd, Coding::Gzip]),
        ];
        for (field, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert("accept-encoding", field.parse().unwrap());
            assert_eq!(Accepted::of(&headers).iter().collect::<Vec<_>>(), expected, "{field}");
        }
        assert_eq!(Accepted::of(&HeaderMap::new()), Accepted::NONE);
        for field in ["gzip", "gzip, br;q=0.5, zstd;q=0.7", "br, gzip", "*", "zstd;q=0.1, br;q=0.2"]
        {
            let fields = |text: &str| {
                let pair = (http::header::ACCEPT_ENCODING, text.parse().unwrap());
                Accepted::of(&HeaderMap::from_iter([pair]))
            };
            let accepted = fields(field);
            assert_eq!(fields(&accepted.to_field().unwrap()), accepted, "{field}");
        }
        assert_eq!(Accepted::NONE.to_field(), None);
        let twice = Accepted::new([Coding::Gzip, Coding::Gzip, Coding::Brotli, Coding::Gzip]);
        assert_eq!(twice.iter().collect::<Vec<_>>(), [Coding::Gzip, Coding::Brotli]);
    }
}
