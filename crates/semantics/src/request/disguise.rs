//! Detection of pages disguised as files: many applications respond to `/account/x.css` with the
//! page `/account`.
//!
//! An attacker's link to such a URL makes the page look like a style sheet. If an operator gives
//! all style sheets a lifetime, or the cache uses a heuristic one, the victim's page is stored for
//! all clients (web-cache deception). The content type of the response reveals it. Therefore only
//! the origin's own lifetime applies if the path ends like a file and the response is a document.

/// File extensions that do not belong to documents.
const FILES: [&str; 44] = [
    "7z", "apk", "avi", "avif", "bin", "bmp", "bz2", "class", "css", "csv", "dmg", "eot", "exe",
    "flac", "gif", "gz", "ico", "iso", "jar", "jpeg", "jpg", "js", "map", "mid", "mjs", "mkv",
    "mp3", "mp4", "ogg", "otf", "pdf", "png", "ps", "rar", "svg", "swf", "tar", "tif", "ttf",
    "wasm", "webm", "webp", "woff", "woff2",
];

const DOCUMENTS: [&str; 4] = ["text/html", "application/xhtml+xml", "application/json", "text/xml"];

/// Returns whether a response with this `Content-Type` is a document although the path ends like
/// another kind of file. False without a type, which says nothing.
pub fn is_disguised(path: &str, content_type: Option<&[u8]>) -> bool {
    let path = path.split('?').next().unwrap_or(path);
    names_file(path) && content_type.is_some_and(is_document)
}

/// Returns whether a path without a query ends like the name of a file that is not a document.
pub fn names_file(path: &str) -> bool {
    let last = path.bytes().rposition(|byte| matches!(byte, b'/' | b';' | b'.'));
    let end = last.and_then(|at| path[at..].strip_prefix('.'));
    end.is_some_and(|end| FILES.iter().any(|file| end.eq_ignore_ascii_case(file)))
}

/// Returns whether a `Content-Type` is that of a document.
pub fn is_document(content_type: &[u8]) -> bool {
    let kind = essence(content_type);
    DOCUMENTS.iter().any(|document| kind.eq_ignore_ascii_case(document.as_bytes()))
}

/// Returns a media type without its parameters.
pub(crate) fn essence(content_type: &[u8]) -> &[u8] {
    content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_under_the_name_of_a_file_is_noticed() {
        for (path, kind, expected) in [
            ("/account/x.css", "text/html; charset=utf-8", true),
            ("/account/x.CSS?q", "Text/HTML", true),
            ("/account;x.js", "application/json", true),
            ("/account%2Fx.png", "text/html", true),
            ("/x.css", "text/css", false),
            ("/x.png", "image/png", false),
            ("/x.bin", "application/octet-stream", false),
            ("/x.html", "text/html", false),
            ("/x.json", "application/json", false),
            ("/css", "text/html", false),
            ("/x.css/", "text/html", false),
            ("/", "text/html", false),
        ] {
            assert_eq!(is_disguised(path, Some(kind.as_bytes())), expected, "{path} {kind}");
        }
        assert!(!is_disguised("/x.css", None));
    }
}
