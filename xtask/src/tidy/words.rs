//! Words and beginnings that comments must not have, because they make a person or a question out
//! of a fact about the program.

use std::path::Path;

use super::comments;
use super::finding::{Finding, finding};
use super::stands_alone;

/// Words that no comment contains, in lower case.
const WORDS: &[&str] =
    &["whoever", "whomever", "nobody", "somebody", "everybody", "anybody", "lest", "thereof"];

/// Words that no doc comment begins with: a summary is a verb in the third person or a noun phrase.
const BEGINNINGS: &[&str] = &["Who", "What", "Whether", "So", "As", "That"];

/// Checks the comments of a Rust file.
pub fn check(path: &Path, text: &str) -> Vec<Finding> {
    let comments = comments::of(text);
    let mut found = Vec::new();
    for (at, comment) in comments.iter().enumerate() {
        let lower = comment.text.to_lowercase();
        for word in WORDS {
            if lower.match_indices(word).any(|(at, _)| stands_alone(&lower, at, word)) {
                let what = format!("the word \"{word}\" in a comment: name the thing instead");
                found.push(finding(path, comment.line + 1, what));
            }
        }
        let is_first = at == 0 || !comment.continues(&comments[at - 1]);
        let first = comment.text.split_whitespace().next();
        if let Some(first) = first.filter(|word| is_first && BEGINNINGS.contains(word))
            && comment.is_doc()
        {
            let what = format!("a doc comment that begins with \"{first}\": use a verb or a noun");
            found.push(finding(path, comment.line + 1, what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(Path::new("crates/a/src/lib.rs"), text).iter().map(|f| f.line).collect()
    }

    #[test]
    fn words_are_found_in_comments_only() {
        assert_eq!(lines("// Nobody waits.\nfn nobody() {}\n"), [1]);
        assert_eq!(
            lines("/// Returns the list, lest\n/// whoever asks waits.\nfn f() {}\n"),
            [1, 2]
        );
        let none = Vec::<usize>::new();
        assert_eq!(lines("const A: &str = \"\n// nobody\n\";\n// the celestial sphere\n"), none);
    }

    #[test]
    fn beginnings_are_found_in_doc_comments_only() {
        assert_eq!(lines("//! What it is.\n\n/// Who asks.\nfn f() {}\n"), [1, 3]);
        let none = Vec::<usize>::new();
        assert_eq!(lines("/// Returns a value.\n/// As it is.\nfn f() {}\n// So it is.\n"), none);
        assert_eq!(lines("/// Assigns a value.\nfn f() {}\n"), none);
    }
}
