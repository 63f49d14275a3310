//! Properties of a URL in a log: site, directory, page or part, program or document.

use store::Kind;

use super::event::hash;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Url {
    /// Hash of scheme, host and port; 0 for a path alone.
    pub site: u64,
    /// Hash of the site and the path's directory.
    pub group: u64,
    /// Kind by the end of the path.
    pub kind: Kind,
    /// True if a program generates the response, as far as the URL tells.
    pub is_dynamic: bool,
}

impl Url {
    /// Splits an absolute URL, or a path with its query.
    pub fn new(url: &[u8]) -> Url {
        let host_at = memchr::memmem::find(url, b"://").map_or(0, |scheme| scheme + 3);
        let has_site = host_at > 0 && !url.starts_with(b"/");
        let path_at = match has_site {
            true => host_at + until(&url[host_at..], b"/?#"),
            false => 0,
        };
        let (site, rest) = url.split_at(path_at);
        let path = &rest[..until(rest, b"?#")];
        let file_at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let is_dynamic = path.len() < rest.len() && rest[path.len()] == b'?' || is_program(path);
        Url {
            site: if has_site { hash(&site.to_ascii_lowercase()) } else { 0 },
            group: hash(&url[..path_at + file_at]),
            kind: kind(&path[file_at..]),
            is_dynamic,
        }
    }
}

/// Returns the number of bytes before the first of `ends`.
fn until(bytes: &[u8], ends: &[u8]) -> usize {
    bytes.iter().position(|byte| ends.contains(byte)).unwrap_or(bytes.len())
}

fn is_program(path: &[u8]) -> bool {
    let has = |part: &[u8]| memchr::memmem::find(path, part).is_some();
    has(b"cgi-bin") || has(b"/cgi/") || path.ends_with(b".cgi") || has(b".cgi/")
}

/// Returns the kind of a file: a directory or an HTML file is a page.
fn kind(file: &[u8]) -> Kind {
    const PAGES: [&[u8]; 4] = [b"html", b"htm", b"shtml", b"xhtml"];
    let is_page = match file.iter().rposition(|byte| *byte == b'.') {
        None => file.is_empty(),
        Some(dot) => PAGES.iter().any(|page| file[dot + 1..].eq_ignore_ascii_case(page)),
    };
    if is_page { Kind::Html } else { Kind::Other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_and_directories() {
        let [a, b, c, d, e] = [
            "http://Host.example:8080/dir/page.html",
            "http://host.example:8080/dir/a.gif",
            "http://host.example:8080/a.gif",
            "/dir/a.gif",
            "http://host.example:8080",
        ]
        .map(|url| Url::new(url.as_bytes()));
        assert!(a.site == b.site && b.site == c.site && c.site == e.site && d.site == 0);
        assert!(b.group != c.group && b.group != d.group);
        assert_eq!(Url::new(b"/dir/b.gif").group, d.group);
        assert_eq!(Url::new(b"/see?u=http://x/").site, 0, "a URL within a path");
        assert_eq!(Url::new(b"").site, 0);
    }

    #[test]
    fn pages_and_programs() {
        let kind = |url: &str| Url::new(url.as_bytes()).kind;
        for page in ["http://h/", "/x/", "/x.HTM", "/a.b/c.html#top", "/x/?q"] {
            assert_eq!(kind(page), Kind::Html, "{page}");
        }
        for part in ["/x", "/x.gif", "/html", "http://h/x.html.gz"] {
            assert_eq!(kind(part), Kind::Other, "{part}");
        }
        let is_dynamic = |url: &str| Url::new(url.as_bytes()).is_dynamic;
        for program in ["http://h/cgi-bin/x", "/x?", "/x.cgi", "/x.cgi/extra", "/cgi/x"] {
            assert!(is_dynamic(program), "{program}");
        }
        for document in ["/x#a?b", "/cgi.html", "http://h/", "/magic/x"] {
            assert!(!is_dynamic(document), "{document}");
        }
    }
}
