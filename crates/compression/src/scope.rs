//! The bodies that are compressed, and the codings.

use crate::coding::{Accepted, Coding};

/// The bodies that are compressed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compress {
    /// The codings to use; if empty, nothing is compressed.
    pub codings: Vec<Coding>,
    /// The media types to compress, in lower case without parameters.
    pub types: Vec<String>,
    /// The minimum size in bytes.
    pub least: u64,
    /// The maximum size in bytes.
    pub most: u64,
}

impl Compress {
    /// Returns whether bodies of this media type are compressed. Ignores parameters.
    pub fn has_type(&self, media_type: &str) -> bool {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        self.types.iter().any(|known| known.eq_ignore_ascii_case(essence))
    }

    /// Returns whether bodies of this size are compressed.
    pub fn has_size(&self, size: u64) -> bool {
        (self.least..=self.most).contains(&size)
    }

    /// Returns whether a body of this size and media type is compressed for clients that accept
    /// that.
    pub fn includes(&self, size: u64, media_type: &str) -> bool {
        !self.codings.is_empty() && self.has_size(size) && self.has_type(media_type)
    }

    /// Returns the configured coding that the client prefers.
    pub fn for_client(&self, accepted: Accepted) -> Option<Coding> {
        accepted.iter().find(|coding| self.codings.contains(coding))
    }
}

/// Returns whether a text is a media type without parameters.
pub fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !part.is_empty() && part.bytes().all(is_letter)
    };
    text.split_once('/').is_some_and(|(top, sub)| is_token(top) && is_token(sub))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_sizes_say_what_is_compressed() {
        let codings = vec![Coding::Gzip, Coding::Brotli];
        let types = vec!["text/html".to_owned()];
        let compress = Compress { codings, types, least: 10, most: 20 };
        for (size, kind, expected) in [
            (10, "text/html; charset=utf-8", true),
            (20, "Text/HTML", true),
            (9, "text/html", false),
            (21, "text/html", false),
            (15, "text/htm", false),
            (15, "image/png", false),
        ] {
            assert_eq!(compress.includes(size, kind), expected, "{size} {kind}");
        }
        let accepted = Accepted::new([Coding::Zstd, Coding::Gzip, Coding::Brotli]);
        assert_eq!(compress.for_client(accepted), Some(Coding::Gzip));
        assert_eq!(compress.for_client(Accepted::new([Coding::Zstd])), None);
        assert!(!Compress::default().includes(0, "text/html"));
    }
}
