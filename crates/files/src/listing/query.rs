//! The part of a listing that a request selects, and its form: the query parameters `sort`,
//! `order`, `offset` and `limit`, and `Accept`, as in Caddy. An invalid parameter counts as absent.

use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Directories, then files, each by name.
    #[default]
    NameDirectoriesFirst,
    Name,
    /// Directories by name, then files by size.
    Size,
    Time,
}

impl Sort {
    /// Returns the value of `sort` in the query.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Sort::NameDirectoriesFirst => "namedirfirst",
            Sort::Name => "name",
            Sort::Size => "size",
            Sort::Time => "time",
        }
    }

    fn named(name: &str) -> Option<Sort> {
        let all = [Sort::NameDirectoriesFirst, Sort::Name, Sort::Size, Sort::Time];
        all.into_iter().find(|sort| sort.name() == name)
    }
}

/// The selection made by a request for a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListingQuery {
    pub(crate) sort: Sort,
    pub(crate) is_descending: bool,
    /// Number of entries to skip.
    pub(crate) offset: usize,
    /// Entries per page; `None`: the maximum.
    pub(crate) limit: Option<usize>,
    pub(crate) is_json: bool,
}

impl ListingQuery {
    /// Parses the query of a URL. `is_json`: the client accepts JSON.
    pub fn of(query: Option<&str>, is_json: bool) -> ListingQuery {
        let mut wanted = ListingQuery { is_json, ..ListingQuery::default() };
        for (name, value) in query.unwrap_or_default().split('&').filter_map(|p| p.split_once('='))
        {
            match name {
                "sort" => wanted.sort = Sort::named(value).unwrap_or_default(),
                "order" => wanted.is_descending = value == "desc",
                "offset" => wanted.offset = value.parse().unwrap_or_default(),
                "limit" => wanted.limit = value.parse().ok().filter(|limit| *limit > 0),
                _ => {}
            }
        }
        wanted
    }

    /// Returns the query that parses back to this selection; it begins with `?`.
    pub(crate) fn to_query(self) -> String {
        let order = if self.is_descending { "desc" } else { "asc" };
        let mut text = format!("?sort={}&order={order}", self.sort.name());
        // Writing to memory cannot fail.
        if let Some(limit) = self.limit {
            let _ = write!(text, "&limit={limit}");
        }
        if self.offset > 0 {
            let _ = write!(text, "&offset={}", self.offset);
        }
        text
    }

    /// Returns the selection of the first page in another order, or in the reverse order if `sort`
    /// is the current one.
    pub(crate) fn sorted_by(self, sort: Sort) -> ListingQuery {
        let is_descending = self.sort == sort && !self.is_descending;
        ListingQuery { sort, is_descending, offset: 0, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_and_written_and_what_means_nothing_is_ignored() {
        let all = ListingQuery {
            sort: Sort::Size,
            is_descending: true,
            offset: 30,
            limit: Some(10),
            is_json: false,
        };
        let text = "sort=size&order=desc&limit=10&offset=30";
        assert_eq!(ListingQuery::of(Some(text), false), all);
        assert_eq!(all.to_query(), format!("?{text}"));
        assert_eq!(all.sorted_by(Sort::Size).to_query(), "?sort=size&order=asc&limit=10");
        assert_eq!(all.sorted_by(Sort::Time).to_query(), "?sort=time&order=asc&limit=10");
        for odd in [
            "",
            "x",
            "sort",
            "sort=",
            "sort=SIZE",
            "sort=size%20",
            "order=down",
            "limit=0",
            "limit=-1",
            "limit=x",
            "offset=-1",
            "offset=1e9",
            "offset=99999999999999999999",
            "&&=&",
            "sort=size&sort=none",
        ] {
            assert_eq!(ListingQuery::of(Some(odd), false), ListingQuery::default(), "{odd}");
        }
    }
}
