//! Links and paths in prose, which must lead to something that exists.
//!
//! Three rules. A relative link of a Markdown file leads to a file of the repository, and its
//! anchor, if any, to a heading of that file. A back-quoted path of a source file, a folder or a
//! module (`store/src/core.rs`, `layout/`, `store::core::held`) exists: below the root, below
//! `crates/`, or as the end of a longer path. A page `docs/…` that any text mentions exists.
//!
//! The decisions and the change log name files of their time: their links and pages are checked,
//! their paths are not.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::finding::{Finding, finding};

/// Folders with crates.
const FOLDERS: &[&str] = &["crates", "measure"];

/// Files whose paths are historical.
const HISTORY: &[&str] = &["docs/decisions", "CHANGELOG.md"];

/// The texts of the repository and all of its paths.
pub struct Repository<'a> {
    /// Prose and source texts, by path below the root.
    pub texts: &'a BTreeMap<PathBuf, String>,
    /// All files and directories below the root.
    pub paths: &'a BTreeSet<PathBuf>,
}

/// The parts of a Markdown file that can be checked, each with its position in the text.
#[derive(Default)]
struct Markdown {
    links: Vec<(String, Range<usize>)>,
    codes: Vec<(String, Range<usize>)>,
    anchors: BTreeSet<String>,
}

/// Returns the links, paths and mentioned pages that lead nowhere.
pub fn check(repository: &Repository<'_>) -> Vec<Finding> {
    let markdown = |p: &Path| p.extension().is_some_and(|e| e == "md");
    let parsed: BTreeMap<&Path, Markdown> = repository
        .texts
        .iter()
        .filter(|(path, _)| markdown(path))
        .map(|(path, text)| (path.as_path(), Markdown::read(text)))
        .collect();
    let mut found = Vec::new();
    for (path, text) in repository.texts {
        found.extend(repository.pages(path, text));
        let Some(page) = parsed.get(path.as_path()) else { continue };
        for (target, place) in &page.links {
            if let Err(what) = repository.link(&parsed, path, target) {
                found.push(finding(path, line_of(text, place), what));
            }
        }
        if HISTORY.iter().any(|h| path.starts_with(h)) {
            continue;
        }
        for (code, place) in &page.codes {
            if !repository.has_source(code) {
                let what = format!("no such path: `{code}`");
                found.push(finding(path, line_of(text, place), what));
            }
        }
    }
    found
}

fn line_of(text: &str, place: &Range<usize>) -> usize {
    text[..place.start].matches('\n').count() + 1
}

impl Markdown {
    /// Parses a page: its links and images, its code spans, the anchors of its headings.
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        for (event, place) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push((dest_url.into_string(), place));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    page.add_anchor(&heading.take().unwrap_or_default());
                }
                Event::Text(said) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&said);
                    }
                }
                Event::Code(code) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&code);
                    }
                    page.codes.push((code.into_string(), place));
                }
                _ => {}
            }
        }
        page
    }

    /// Adds the anchor of a heading; repeated headings get a number.
    fn add_anchor(&mut self, heading: &str) {
        let anchor = anchor(heading);
        let mut numbered = anchor.clone();
        let mut number = 0;
        while !self.anchors.insert(numbered) {
            number += 1;
            numbered = format!("{anchor}-{number}");
        }
    }
}

/// Returns the anchor that Markdown sites generate for a heading: its letters and digits in lower
/// case, blanks as hyphens.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns whether a part of a path is a variable: `experiments/PAPER.rs`.
fn has_variable(code: &str) -> bool {
    let variable = |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
    code.contains('/') && code.split(['/', '.']).any(variable)
}

/// Resolves `target` relative to `directory`, as a path from the root; returns `None` if it leaves
/// the root.
fn resolve(directory: &Path, target: &str) -> Option<PathBuf> {
    let mut resolved = directory.to_path_buf();
    for part in Path::new(target).components() {
        match part {
            Component::Normal(name) => resolved.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !resolved.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(resolved)
}

impl Repository<'_> {
    /// Checks one link of the file at `from`; addresses with a scheme are ignored.
    fn link(
        &self,
        pages: &BTreeMap<&Path, Markdown>,
        from: &Path,
        target: &str,
    ) -> Result<(), String> {
        if target.contains("://") || target.starts_with("mailto:") {
            return Ok(());
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = if path.is_empty() {
            Some(from.to_path_buf())
        } else {
            resolve(from.parent().unwrap_or(Path::new("")), path)
        };
        let file = file
            .filter(|f| self.paths.contains(f) || f.as_os_str().is_empty())
            .ok_or_else(|| format!("a link to a file that is not there: {target}"))?;
        let known = pages.get(file.as_path()).is_some_and(|p| p.anchors.contains(anchor));
        if anchor.is_empty() || known {
            Ok(())
        } else {
            Err(format!("a link to a heading that is not there: {target}"))
        }
    }

    /// Returns whether a code span is either not a repository path or an existing one.
    fn has_source(&self, code: &str) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:".contains(c);
        if !code.chars().all(plain) || code.starts_with(['/', '.', '-']) || has_variable(code) {
            return true;
        }
        if code.contains("::") {
            return self.has_item(code);
        }
        if code.ends_with(".rs") || code.ends_with('/') {
            return self.ends_with(Path::new(code));
        }
        let below =
            ["crates", "measure", "xtask", "docs", "packaging"].iter().any(|b| code.starts_with(b));
        let in_crate = code.split_once('/').is_some_and(|(name, rest)| {
            self.is_crate(name)
                && ["src", "tests", "benches", "examples"]
                    .iter()
                    .any(|b| Path::new(rest).starts_with(b))
        });
        if !(below && code.contains('/') || in_crate) {
            return true;
        }
        self.paths.contains(Path::new(code))
            || FOLDERS.iter().any(|folder| self.paths.contains(&Path::new(folder).join(code)))
    }

    /// Returns whether any path ends with the components of `end`.
    fn ends_with(&self, end: &Path) -> bool {
        self.paths.iter().any(|path| path.ends_with(end))
    }

    fn is_crate(&self, name: &str) -> bool {
        self.sources(name).is_some()
    }

    /// Returns the folder with the source of a crate.
    fn sources(&self, name: &str) -> Option<PathBuf> {
        let sources = FOLDERS.iter().map(|folder| Path::new(folder).join(name).join("src"));
        sources.into_iter().find(|sources| self.paths.contains(sources))
    }

    /// Returns whether `code` is either not a path into a crate of the project, or one whose
    /// modules exist and whose last name occurs in the module before it.
    fn has_item(&self, code: &str) -> bool {
        let mut names = code.split("::");
        let Some(mut at) = names.next().and_then(|name| self.sources(name)) else { return true };
        let mut text = self.texts.get(&at.join("lib.rs")).or(self.texts.get(&at.join("main.rs")));
        for name in names {
            let below = at.join(name);
            let file = self.texts.get(&below.with_extension("rs"));
            if file.is_some() || self.paths.contains(&below) {
                (at, text) = (below, file);
                continue;
            }
            let words =
                |t: &String| t.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == name);
            // Names after an item (a method, a variant) are not checked.
            return text.is_some_and(words);
        }
        true
    }

    /// Returns the pages below `docs/` that a text mentions and that do not exist.
    fn pages(&self, path: &Path, text: &str) -> Vec<Finding> {
        let inside = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        let mut found = Vec::new();
        for (index, line) in text.lines().enumerate() {
            for (at, _) in line.match_indices("docs/") {
                if line[..at].ends_with(inside) {
                    continue;
                }
                let end = line[at..].find(|c| !inside(c)).map_or(line.len(), |end| at + end);
                let page = line[at..end].trim_end_matches(['.', '/']);
                // A decision may be named by its number.
                let there = |p: &PathBuf| p.to_string_lossy().starts_with(page);
                if !self.paths.iter().any(there) {
                    found.push(finding(path, index + 1, format!("no such page: {page}")));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Existing pages, because this file's own mentions of pages are checked, too.
    const PAGE: &str = "docs/systems.md";
    const DECISION: &str = "docs/decisions/0001-preallocation.md";

    /// Checks one page beside the files of a small repository.
    fn found(path: &str, text: &str) -> Vec<String> {
        let mut texts = BTreeMap::from([
            (
                "docs/guide/rules.md".into(),
                "# A page\n## Two `words`, twice\n## Two words twice".into(),
            ),
            ("crates/store/src/lib.rs".into(), "mod core; pub use core::Held;".into()),
            ("crates/store/src/core.rs".into(), "pub struct Held; mod spare;".into()),
            ("crates/store/src/core/spare.rs".into(), "fn take() {}".into()),
        ]);
        texts.insert(PathBuf::from(path), text.to_owned());
        let mut paths = BTreeSet::from([PathBuf::from("docs/img/layouts.svg")]);
        for file in texts.keys() {
            paths.extend(file.ancestors().map(Path::to_path_buf));
        }
        paths.remove(Path::new(""));
        let found = check(&Repository { texts: &texts, paths: &paths });
        found.into_iter().map(|f| format!("{}: {}", f.line, f.what)).collect()
    }

    #[test]
    fn links_lead_to_files() {
        let good = "[a](guide/rules.md) ![b](img/layouts.svg) [c](../README.md) \
            [d](guide/) [e][e]\n\n\
            [e]: https://example.com/x\n\n```\n[f](nowhere.md)\n```\n";
        let mut expected = vec!["1: a link to a file that is not there: ../README.md".to_owned()];
        assert_eq!(found(PAGE, good), expected);
        expected = vec![
            "2: a link to a file that is not there: b.svg".to_owned(),
            "2: a link to a file that is not there: ../../x".to_owned(),
        ];
        assert_eq!(found(PAGE, "\n![b](b.svg) [up](../../x) [m](mailto:a@b)"), expected);
    }

    #[test]
    fn links_lead_to_headings() {
        let good = "# B\n[a](guide/rules.md#two-words-twice) [b](#b) \
            [c](guide/rules.md#two-words-twice-1)";
        assert_eq!(found(PAGE, good), [""; 0]);
        let bad = "[a](guide/rules.md#three) [b](#b) [c](img/layouts.svg#x)";
        assert_eq!(found(PAGE, bad).len(), 3);
    }

    #[test]
    fn back_quoted_paths_exist() {
        let good = "`crates/store/src/core.rs` `store/src/core.rs` `core/spare.rs` `core/` \
            `store/src/core` `a/b` `/x/` `*.rs` `std::fs::read` `cargo test x/y.rs` \
            `crates/PAPER/WHAT.rs`";
        assert_eq!(found(PAGE, good), [""; 0]);
        for bad in ["crates/store/src/gone.rs", "gone.rs", "store/src/gone", "gone/", "packaging/x"]
        {
            assert!(!found(PAGE, &format!("`{bad}`")).is_empty(), "{bad}");
        }
    }

    #[test]
    fn back_quoted_modules_exist() {
        let good =
            "`store::core` `store::core::Held::new` `store::core::spare::take` `store::Held`";
        assert_eq!(found(PAGE, good), [""; 0]);
        for bad in ["store::gone", "store::core::gone", "store::core::spare::gone"] {
            assert!(!found(PAGE, &format!("`{bad}`")).is_empty(), "{bad}");
        }
    }

    #[test]
    fn decisions_may_name_what_was() {
        let text = "`store/src/gone.rs` `store::gone` [a](../guide/rules.md)";
        assert_eq!(found(DECISION, text), [""; 0]);
        assert_eq!(found(DECISION, "[a](guide/rules.md)").len(), 1);
    }

    #[test]
    fn mentioned_pages_exist() {
        let mention = |page: &str| format!("// see docs{page}, and x/docs{page}\n");
        let rust = "crates/store/src/read.rs";
        assert_eq!(found(rust, &mention("/guide/rules.md")), [""; 0]);
        assert_eq!(found(rust, &mention("/guide/gone.md")).len(), 1);
    }
}
