//! The line comments of a Rust file, without the `//` inside of string literals.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};

/// A line that is a comment and nothing else, or the comment at the end of a line of code.
#[derive(Debug, PartialEq, Eq)]
pub struct Comment<'a> {
    /// The line, from 0.
    pub line: usize,
    /// The blanks before it; `None` if it follows code.
    pub indent: Option<&'a str>,
    /// `//`, `///` or `//!`.
    pub marker: &'static str,
    /// The text behind the marker.
    pub text: &'a str,
}

impl Comment<'_> {
    /// Returns whether rustdoc shows the comment.
    pub fn is_doc(&self) -> bool {
        self.marker.len() == 3
    }

    /// Returns whether this comment continues `before`.
    pub fn continues(&self, before: &Comment<'_>) -> bool {
        self.indent.is_some() && self.line == before.line + 1 && self.column() == before.column()
    }

    /// Returns the width of the indent and the marker, which lines of one comment share.
    fn column(&self) -> (Option<usize>, &'static str) {
        (self.indent.map(str::len), self.marker)
    }
}

/// Returns the line comments of a file, from top to bottom; none of a file that is not Rust.
pub fn of(text: &str) -> Vec<Comment<'_>> {
    let Ok(tokens) = text.parse::<TokenStream>() else { return Vec::new() };
    let mut inside = BTreeSet::new();
    add_literal_lines(tokens, &mut inside);
    let lines = text.lines().enumerate().filter(|(line, _)| !inside.contains(line));
    lines.filter_map(|(line, text)| in_line(line, text)).collect()
}

/// Adds the lines, from 0, that begin inside of a literal.
fn add_literal_lines(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => add_literal_lines(group.stream(), lines),
            // Only these: to find the line of a position takes long.
            TokenTree::Literal(literal) if literal.to_string().contains('\n') => {
                lines.extend(literal.span().start().line..literal.span().end().line);
            }
            TokenTree::Literal(_) | TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

fn in_line(line: usize, text: &str) -> Option<Comment<'_>> {
    let bare = text.trim_start();
    for marker in ["///", "//!", "//"] {
        if let Some(behind) = bare.strip_prefix(marker).filter(|_| !bare.starts_with("////")) {
            let indent = Some(&text[..text.len() - bare.len()]);
            return Some(Comment { line, indent, marker, text: behind });
        }
    }
    let (code, behind) = text.split_once(" // ")?;
    let is_code = code.matches('"').count() % 2 == 0;
    is_code.then_some(Comment { line, indent: None, marker: "//", text: behind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_outside_of_literals() {
        let text = "//! a\n/// b\nfn f() {\n    // c\n    x(); // d\n    y(\"\n// e\n \
            // f\"); // g\n}\n";
        let found: Vec<_> = of(text).iter().map(|c| (c.line, c.marker, c.text)).collect();
        let expected = [(0, "//!", " a"), (1, "///", " b"), (3, "//", " c"), (4, "//", "d")];
        assert_eq!(found, expected);
        assert_eq!(of("x(\"a // b\")\n"), []);
        assert_eq!(of("fn {\n// a"), []);
    }
}
