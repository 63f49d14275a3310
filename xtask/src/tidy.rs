//! The rules of the source text, checked like tests.
//!
//! Every rule is a pure function from a file's path and text to findings; only [`findings`] reads
//! the disk. Continuous integration runs it before the tests.
//!
//! The rules: a module comment at the head of every Rust file; at most [`MAX_LINES`] lines per
//! file, [`MAX_FUNCTION_LINES`] per function, [`MAX_COLUMNS`] columns per line; no words that
//! announce unfinished work; comments in plain words ([`words`]); no machine-specific paths; no
//! Rust file without a `mod` that leads to it; folders import downwards only ([`rooms`]); links and
//! paths in prose lead somewhere ([`links`]).
//!
//! [`fix`] wraps comments and Markdown paragraphs that are too wide ([`wrap`]).

mod comments;
mod dead;
mod finding;
mod imports;
mod links;
mod rooms;
mod words;
mod wrap;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::tidy::finding::{Finding, finding};
use crate::workspace;

/// Maximum lines of one Rust file.
const MAX_LINES: usize = 1_000;
/// Maximum lines of one function, from `fn` to its closing brace.
const MAX_FUNCTION_LINES: usize = 70;
/// Maximum characters of one line.
const MAX_COLUMNS: usize = 100;

/// Words that announce unfinished work, assembled from halves so that this file does not contain
/// them.
const BANNED_WORDS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("#[ig", "nore"),
    concat!("for ", "now"),
    concat!("place", "holder"),
    concat!("st", "ub"),
];

/// Prefixes of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Use", "rs/")];

/// Checks the workspace and prints the findings.
///
/// # Errors
///
/// When a rule is broken or the sources cannot be read.
pub fn run() -> Result<(), String> {
    let found = findings(&workspace::root())?;
    for finding in &found {
        println!("{finding}");
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(format!("{} rules of the source text broken", found.len()))
    }
}

/// Wraps over-long comments and Markdown paragraphs where that is safe, and prints the changed
/// files. Then checks the workspace like [`run`].
///
/// # Errors
///
/// When a file cannot be read or written, or a rule is still broken.
pub fn fix() -> Result<(), String> {
    let root = workspace::root();
    for (path, text) in Tree::read(&root)?.files {
        let wrapped = match path.extension().and_then(|e| e.to_str()) {
            Some("rs") => wrap::rust(&text),
            Some("md") => wrap::markdown(&text),
            _ => None,
        };
        if let Some(wrapped) = wrapped {
            let path = root.join(path);
            fs::write(&path, wrapped).map_err(|e| format!("{}: {e}", path.display()))?;
            println!("wrapped {}", path.display());
        }
    }
    run()
}

/// Prints the imports between the files of the crates named `name`, by folder.
///
/// # Errors
///
/// When the sources cannot be read.
pub fn print_imports(name: &str) -> Result<(), String> {
    let root = workspace::root();
    let Tree { files, .. } = Tree::read(&root)?;
    for (at, graph) in rooms::crates(&files) {
        if at.file_name().is_none_or(|n| n != name) {
            continue;
        }
        for (from, to) in &graph.arrows {
            let to: Vec<String> = to.iter().map(|m| m.join("::")).collect();
            println!("{}: {}", from.join("::"), to.join(" "));
        }
    }
    Ok(())
}

/// Returns all findings below `root`.
///
/// # Errors
///
/// When a file cannot be read.
pub fn findings(root: &Path) -> Result<Vec<Finding>, String> {
    let Tree { files, paths } = Tree::read(root)?;
    let own = own_paths(root);
    let mut found = Vec::new();
    for (path, text) in &files {
        found.extend(machine_paths(path, text, &own));
        found.extend(banned_words(path, text));
        if path.extension().is_some_and(|e| e == "rs") {
            found.extend(module_comment(path, text));
            found.extend(lengths(path, text));
            found.extend(functions(path, text));
            found.extend(words::check(path, text));
        }
    }
    found.extend(dead::files(&files));
    found.extend(rooms::check(&files));
    found.extend(links::check(&links::Repository { texts: &files, paths: &paths }));
    found.sort();
    Ok(found)
}

/// Returns whether a directory contains no sources of the project.
fn is_foreign(name: &str) -> bool {
    name == "target" || name == "fixtures" || (name.starts_with('.') && name != ".ci")
}

/// Everything below the root of the workspace, by relative path.
#[derive(Default)]
struct Tree {
    /// The texts to which the rules apply.
    files: BTreeMap<PathBuf, String>,
    /// All files and directories.
    paths: BTreeSet<PathBuf>,
}

impl Tree {
    fn read(root: &Path) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.add(root, root)?;
        Ok(tree)
    }

    fn add(&mut self, root: &Path, at: &Path) -> Result<(), String> {
        let fail = |e: std::io::Error| format!("reading {}: {e}", at.display());
        for entry in fs::read_dir(at).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let below = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            self.paths.insert(below.clone());
            if entry.file_type().map_err(fail)?.is_dir() {
                if !is_foreign(&name) {
                    self.add(root, &path)?;
                }
                continue;
            }
            let ours = ["rs", "md", "toml", "sh", "service", "http"];
            if path.extension().is_some_and(|e| ours.iter().any(|o| e == *o))
                || at.file_name().is_some_and(|n| n == ".ci")
            {
                let fail = |e| format!("{}: {e}", path.display());
                let text = fs::read_to_string(&path).map_err(fail)?;
                self.files.insert(below, text);
            }
        }
        Ok(())
    }
}

/// Returns the directory that contains this clone, unless it is a common one.
fn own_paths(root: &Path) -> Vec<String> {
    let Some(parent) = root.parent() else { return Vec::new() };
    let common = ["/", "/tmp", "/var/tmp", "/usr", "/opt"];
    if parent == std::env::temp_dir() || common.iter().any(|c| parent == Path::new(c)) {
        return Vec::new();
    }
    vec![format!("{}/", parent.display())]
}

/// Checks that a Rust file begins with a module comment.
fn module_comment(path: &Path, text: &str) -> Option<Finding> {
    let first = text.lines().find(|l| !l.trim().is_empty())?;
    let said = first.starts_with("//!") || first.starts_with("/*!");
    (!said).then(|| finding(path, 1, "no module comment (//!) at the head of the file"))
}

/// Checks that files and lines are short enough.
fn lengths(path: &Path, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        found.push(finding(path, lines, format!("{lines} lines, at most {MAX_LINES} allowed")));
    }
    for (index, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        if columns > MAX_COLUMNS && !line.contains("://") {
            let what = format!("{columns} columns, at most {MAX_COLUMNS} allowed");
            found.push(finding(path, index + 1, what));
        }
    }
    found
}

/// Checks that functions are short enough.
fn functions(path: &Path, text: &str) -> Vec<Finding> {
    let parsed = match syn::parse_file(text) {
        Ok(parsed) => parsed,
        Err(e) => {
            return vec![finding(path, e.span().start().line, format!("not Rust: {e}"))];
        }
    };
    let mut long = LongFunctions { path, found: Vec::new() };
    long.visit_file(&parsed);
    long.found
}

struct LongFunctions<'a> {
    path: &'a Path,
    found: Vec<Finding>,
}

impl LongFunctions<'_> {
    fn judge(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let begin = signature.span().start().line;
        let lines = block.brace_token.span.close().end().line + 1 - begin;
        if lines > MAX_FUNCTION_LINES {
            let name = &signature.ident;
            let what =
                format!("function {name} has {lines} lines, at most {MAX_FUNCTION_LINES} allowed");
            self.found.push(finding(self.path, begin, what));
        }
    }
}

impl<'ast> Visit<'ast> for LongFunctions<'_> {
    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.judge(&node.sig, &node.block);
        visit::visit_item_fn(self, node);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.judge(&node.sig, &node.block);
        visit::visit_impl_item_fn(self, node);
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if let Some(block) = &node.default {
            self.judge(&node.sig, block);
        }
        visit::visit_trait_item_fn(self, node);
    }
}

/// Returns whether the `word` at `at` in `text` is not part of a longer word.
fn stands_alone(text: &str, at: usize, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let begins = word.starts_with(part);
    let ends = word.ends_with(part);
    !(begins && text[..at].ends_with(part) || ends && text[at + word.len()..].starts_with(part))
}

/// Returns whether a banned word is legitimate here: a loop over times, or a test that measures and
/// is therefore not run with the others.
fn is_meant(line: &str, at: usize, word: &str) -> bool {
    let behind = &line[at + word.len()..];
    behind.starts_with(" in ") || behind.starts_with(" = \"measures")
}

/// Checks for words that announce unfinished work.
fn banned_words(path: &Path, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for word in BANNED_WORDS {
            let here = |(at, _)| stands_alone(line, at, word) && !is_meant(line, at, word);
            if line.match_indices(word).any(here) {
                found.push(finding(path, index + 1, format!("the word \"{word}\"")));
            }
        }
    }
    found
}

/// Checks for paths that exist on one machine only.
fn machine_paths(path: &Path, text: &str, own: &[String]) -> Vec<Finding> {
    let inside = |c: char| c.is_alphanumeric() || "._-/".contains(c);
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let listed = MACHINE_PATHS.iter().copied().chain(own.iter().map(String::as_str));
        for prefix in listed {
            if line.match_indices(prefix).any(|(at, _)| !line[..at].ends_with(inside)) {
                found.push(finding(path, index + 1, format!("a path of one machine: {prefix}")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> &'static Path {
        Path::new("crates/a/src/lib.rs")
    }

    #[test]
    fn a_file_without_a_module_comment_is_found() {
        assert!(module_comment(here(), "\nfn main() {}\n").is_some());
        assert!(module_comment(here(), "/// About an item.\nfn main() {}\n").is_some());
        assert!(module_comment(here(), "\n//! About the file.\n").is_none());
    }

    #[test]
    fn a_long_file_and_a_long_line_are_found() {
        assert_eq!(lengths(here(), &"x\n".repeat(MAX_LINES)), []);
        assert_eq!(lengths(here(), &"x\n".repeat(MAX_LINES + 1)).len(), 1);
        assert_eq!(lengths(here(), &"é".repeat(MAX_COLUMNS)), []);
        assert_eq!(lengths(here(), &"é".repeat(MAX_COLUMNS + 1)).len(), 1);
    }

    #[test]
    fn a_long_function_is_found_wherever_it_stands() {
        let body = "x();\n".repeat(MAX_FUNCTION_LINES - 2);
        let fits = format!("fn f() {{\n{body}}}\n");
        assert_eq!(functions(here(), &fits), []);
        let long = format!("fn f() {{\nx();\n{body}}}\n");
        for text in [
            long.clone(),
            format!("impl A {{\n{long}}}"),
            format!("trait A {{\n{long}}}"),
            format!("mod a {{\n{long}}}"),
            format!("fn outer() {{ {long} }}"),
        ] {
            assert!(!functions(here(), &text).is_empty(), "{text}");
        }
        assert!(!functions(here(), "fn {").is_empty());
    }

    #[test]
    fn banned_words_are_found_when_they_stand_alone() {
        for word in BANNED_WORDS {
            assert_eq!(banned_words(here(), &format!("// {word} it\n")).len(), 1, "{word}");
        }
        assert_eq!(banned_words(here(), concat!("for ", "now in 0..9 {\n")), []);
        assert_eq!(banned_words(here(), concat!("#[ig", "nore = \"measures\"]\n")), []);
        assert_eq!(banned_words(here(), concat!("#[ig", "nore = \"slow\"]\n")).len(), 1);
        assert_eq!(banned_words(here(), concat!("// a st", "ubborn mas", "TO", "DON\n")), []);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let own = ["/srv/clone/".to_owned()];
        for path in MACHINE_PATHS {
            assert_eq!(machine_paths(here(), &format!("see {path}x"), &own).len(), 1, "{path}");
            assert_eq!(machine_paths(here(), &format!("http://a{path}x"), &own), []);
        }
        assert_eq!(machine_paths(here(), "see /srv/clone/x", &own).len(), 1);
        assert_eq!(machine_paths(here(), "see /etc/hosts", &own), []);
    }
}
