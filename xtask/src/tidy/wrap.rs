//! Re-wraps paragraphs with lines that are too long: of line comments in Rust files, and of
//! Markdown.
//!
//! Only plain paragraphs are changed. Lists, tables, headings, quotes, code, link definitions, HTML
//! and lines with a hard break are left as they are, and so is a paragraph next to one of these
//! without an empty line between. A code span is not broken, and no line begins with a word that
//! would make it a list, a heading or a quote.

use super::MAX_COLUMNS;
use super::comments;

/// Returns the text of a Rust file with its over-long comments wrapped; `None` if nothing changes.
pub fn rust(text: &str) -> Option<String> {
    let comments = comments::of(text);
    let blocks = comments.chunk_by(|before, after| after.continues(before));
    let mut edits = Vec::new();
    for block in blocks {
        let first = &block[0];
        let Some(indent) = first.indent else { continue };
        let bare: Vec<&str> =
            block.iter().map(|c| c.text.strip_prefix(' ').unwrap_or(c.text)).collect();
        let prefix = format!("{indent}{} ", first.marker);
        edits.extend(
            paragraphs(&bare, &prefix)
                .into_iter()
                .map(|(at, lines)| (first.line + at.start..first.line + at.end, lines)),
        );
    }
    apply(text, edits)
}

/// Returns a Markdown text with its over-long paragraphs wrapped; `None` if nothing changes. Parts
/// that are rendered from declarations stay.
pub fn markdown(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut edits = paragraphs(&lines, "");
    edits.retain(|(range, _)| !is_rendered(&lines[..range.start]));
    apply(text, edits)
}

/// Returns whether the line after `before` is in a rendered part.
fn is_rendered(before: &[&str]) -> bool {
    let mark = before.iter().rev().find(|line| line.starts_with("<!-- "));
    mark.is_some_and(|line| line.contains(": rendered from "))
}

type Edit = (std::ops::Range<usize>, Vec<String>);

/// Returns the plain paragraphs of `lines` that have a line of more than [`MAX_COLUMNS`] with its
/// `prefix`, as their ranges and their new lines.
fn paragraphs(lines: &[&str], prefix: &str) -> Vec<Edit> {
    let mut edits = Vec::new();
    let mut fence: Option<&str> = None;
    let mut at = 0;
    while at < lines.len() {
        let end = at + lines[at..].iter().take_while(|line| !line.trim().is_empty()).count();
        let block = &lines[at..end];
        let is_code = fence.is_some();
        for line in block {
            let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
            match (fence, mark) {
                (None, Some(_)) => fence = mark,
                (Some(open), Some(mark)) if open == mark => fence = None,
                _ => {}
            }
        }
        let columns = |line: &&str| (prefix.len() + line.chars().count()) > MAX_COLUMNS;
        if !is_code && block.iter().any(columns) && block.iter().all(|line| is_plain(line)) {
            let wrapped = wrap(block, prefix);
            let is_changed = wrapped.len() != block.len()
                || wrapped
                    .iter()
                    .zip(block)
                    .any(|(new, old)| new.get(prefix.len()..) != Some(*old));
            if is_changed {
                edits.push((at..end, wrapped));
            }
        }
        at = end.max(at + 1);
    }
    edits
}

/// Returns whether a line is prose that may be joined with the lines beside it.
fn is_plain(line: &str) -> bool {
    let is_break = line.ends_with("  ") || line.ends_with('\\');
    !(line.starts_with([' ', '\t', '<', '[']) || is_break || may_not_begin(line))
}

/// Returns whether Markdown reads a line that begins with this text as anything but prose.
fn may_not_begin(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    let digits = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = digits.len() < word.len() && (digits == "." || digits == ")");
    let is_ruled = |c| word.len() > 1 && word.chars().all(|other| other == c);
    is_number
        || matches!(word, "-" | "+" | "*")
        || word.starts_with(['#', '>', '|'])
        || ["```", "~~~", "//"].iter().any(|mark| word.starts_with(mark))
        || ['=', '-', '*', '_'].into_iter().any(is_ruled)
}

/// Returns the words of `lines` in new lines of at most [`MAX_COLUMNS`], each after `prefix`.
fn wrap(lines: &[&str], prefix: &str) -> Vec<String> {
    let mut wrapped = Vec::new();
    let mut line = String::new();
    for word in words(lines) {
        let columns = prefix.chars().count() + line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && columns > MAX_COLUMNS && !may_not_begin(&word) {
            wrapped.push(format!("{prefix}{line}"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    wrapped.push(format!("{prefix}{line}"));
    wrapped
}

/// Returns the words of a paragraph, with each code span in one piece.
fn words(lines: &[&str]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_open = false;
    for word in lines.iter().flat_map(|line| line.split_whitespace()) {
        match words.last_mut().filter(|_| is_open) {
            Some(span) => {
                span.push(' ');
                span.push_str(word);
            }
            None => words.push(word.to_owned()),
        }
        is_open ^= word.matches('`').count() % 2 == 1;
    }
    words
}

/// Replaces lines of a text; `None` if there is nothing to replace.
fn apply(text: &str, edits: Vec<Edit>) -> Option<String> {
    if edits.is_empty() {
        return None;
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (range, new) in edits.into_iter().rev() {
        lines.splice(range, new);
    }
    let end = if text.ends_with('\n') { "\n" } else { "" };
    Some(lines.join("\n") + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sentence of `n` words of four letters.
    fn prose(n: usize) -> String {
        vec!["word"; n].join(" ")
    }

    #[test]
    fn long_comments_are_wrapped_and_all_else_stays() {
        let long = prose(22);
        for (marker, head, words) in [("//!", "", 19), ("///", "    ", 18), ("//", "    ", 18)] {
            let (part, rest) = (prose(words), prose(22 - words));
            let text = format!("{head}{marker} {long}\n{head}fn f() {{}}\n");
            let new = format!("{head}{marker} {part}\n{head}{marker} {rest}\n{head}fn f() {{}}\n");
            assert_eq!(rust(&text), Some(new.clone()), "{text}");
            assert_eq!(rust(&new), None);
        }
        for kept in [
            format!("/// {}\nfn f() {{}}\n", prose(19)),
            format!("/// - {long}\nfn f() {{}}\n"),
            format!("/// ```\n/// {long}\n/// ```\nfn f() {{}}\n"),
            format!("/// | {long} |\nfn f() {{}}\n"),
            format!("fn f() {{\n    g(\"\n// {long}\n\");\n}}\n"),
            format!("f(); // {long}\n"),
        ] {
            assert_eq!(rust(&kept), None, "{kept}");
        }
    }

    #[test]
    fn a_paragraph_is_wrapped_as_a_whole() {
        let text = format!("//! {}\n//! end\n//!\n//! next\n", prose(22));
        let wrapped = format!("//! {}\n//! {} end\n//!\n//! next\n", prose(19), prose(3));
        assert_eq!(rust(&text), Some(wrapped));
    }

    #[test]
    fn long_markdown_is_wrapped_and_structure_stays() {
        let (long, lines) = (prose(22), format!("{}\n{}", prose(20), prose(2)));
        let text = format!("# A\n\n{long}\n\nshort\n");
        assert_eq!(markdown(&text), Some(format!("# A\n\n{lines}\n\nshort\n")));
        for kept in [
            format!("<!-- a: rendered from b.rs -->\n\n{long}\n\n<!-- end of a -->\n"),
            format!("# {long}\n"),
            format!("* {long}\n"),
            format!("1. {long}\n"),
            format!("| {long} |\n"),
            format!("    {long}\n"),
            format!("> {long}\n"),
            format!("```\n\n{long}\n\n```\n"),
            format!("[a]: {long}\n"),
            format!("{long}  \nend\n"),
            format!("{long}\n* item\n"),
            format!("{long}\n---\n"),
        ] {
            assert_eq!(markdown(&kept), None, "{kept}");
        }
        let last = format!("{long}\n\n```\n{long}\n```\n\n{long}");
        assert_eq!(markdown(&last), Some(format!("{lines}\n\n```\n{long}\n```\n\n{lines}")));
    }

    #[test]
    fn spans_stay_whole_and_no_line_begins_a_list() {
        let span = format!("{} `a b c d`", prose(19));
        assert_eq!(markdown(&span), Some(format!("{}\n`a b c d`", prose(19))));
        let minus = format!("{} - {}", prose(20), prose(2));
        assert_eq!(markdown(&minus), Some(format!("{} -\n{}", prose(20), prose(2))));
    }
}
