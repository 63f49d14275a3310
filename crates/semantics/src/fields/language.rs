//! Language negotiation (RFC 9110, 12.5.4; RFC 4647, 3.4).
//!
//! Clients send lists such as `de-CH, de;q=0.9, en;q=0.8` in thousands of variations. If an
//! operator names the languages of a site, the list is reduced to one of them, and a response that
//! varies by language is stored once per language.

use http::header::ACCEPT_LANGUAGE;

use crate::fields::list;
use crate::fields::view::Fields;
use crate::settings::name_filter::begins_with;

/// Returns the language in `offered` that the client prefers; the first one if the client accepts
/// none or states no preference. `None` if nothing is offered.
pub fn best<'a>(request: &impl Fields, offered: &'a [String]) -> Option<&'a str> {
    let first = offered.first()?;
    let mut liked: Option<(u16, &str)> = None;
    for member in list::members(request, &ACCEPT_LANGUAGE) {
        let member = String::from_utf8_lossy(member);
        let Some((weight, range)) = range(&member) else { continue };
        // Equal weights keep the order of the client.
        if weight > liked.map_or(0, |(most, _)| most)
            && let Some(language) = lookup(range, offered)
        {
            liked = Some((weight, language));
        }
    }
    Some(liked.map_or(first, |(_, language)| language))
}

/// Parses a list member into its weight in thousandths and its range; `None` if the weight is
/// malformed.
fn range(member: &str) -> Option<(u16, &str)> {
    let mut parts = member.split(';').map(str::trim);
    let range = parts.next()?;
    Some((list::weight(parts.map(str::as_bytes))?, range))
}

/// Returns the offered language for a range: the same one, otherwise a wider one (RFC 4647, 3.4),
/// otherwise a narrower one. Case does not matter.
fn lookup<'a>(range: &str, offered: &'a [String]) -> Option<&'a str> {
    if range == "*" {
        return offered.first().map(String::as_str);
    }
    let mut wider = Some(range);
    while let Some(tag) = wider {
        if let Some(same) = offered.iter().find(|one| one.eq_ignore_ascii_case(tag)) {
            return Some(same);
        }
        wider = tag.rsplit_once('-').map(|(head, _)| head);
    }
    let is_narrower = |one: &&String| {
        begins_with(one.as_bytes(), range) && one.as_bytes().get(range.len()) == Some(&b'-')
    };
    offered.iter().find(is_narrower).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    #[test]
    fn the_best_language_is_found() {
        let offered = ["en", "de", "pt-BR"].map(str::to_owned);
        for (accepted, expected) in [
            ("de", "de"),
            ("DE-ch, fr", "de"),
            ("fr, de;q=0.5, en;q=0.4", "de"),
            ("en;q=0.4, de;q=0.5", "de"),
            ("fr", "en"),
            ("fr, *;q=0.1", "en"),
            ("pt", "pt-BR"),
            ("pt-PT", "en"),
            ("pt-br", "pt-BR"),
            ("de;q=0", "en"),
            ("de;q=x, pt", "pt-BR"),
            ("de;q=7", "en"),
            ("", "en"),
            (";q=1,,", "en"),
        ] {
            let line = format!("Accept-Language: {accepted}");
            assert_eq!(best(&headers(&[&line]), &offered), Some(expected), "{accepted}");
        }
        assert_eq!(best(&headers(&[]), &offered), Some("en"));
        assert_eq!(best(&headers(&["Accept-Language: de"]), &[]), None);
    }
}
