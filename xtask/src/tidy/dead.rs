//! Dead files: Rust files that cargo never compiles, because no `mod` leads to them.
//!
//! The search starts at the roots that cargo knows (`src/lib.rs`, `src/main.rs`, `tests/*.rs` and
//! so on) and follows every `mod name;` as the compiler does, including `#[path]`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::finding::{Finding, finding};

/// Returns the Rust files among `files` (path below the root of the workspace → text) that are
/// never compiled.
pub fn files(files: &BTreeMap<PathBuf, String>) -> Vec<Finding> {
    let mut alive = BTreeSet::new();
    let mut queue: Vec<PathBuf> = files.keys().filter(|p| is_root(p)).cloned().collect();
    while let Some(path) = queue.pop() {
        let Some(text) = files.get(&path) else { continue };
        if alive.insert(path.clone()) {
            queue.extend(modules(&path, text));
        }
    }
    let rust = files.keys().filter(|p| p.extension().is_some_and(|e| e == "rs"));
    rust.filter(|p| !alive.contains(*p))
        .map(|p| finding(p, 1, "a dead file: no mod leads to it"))
        .collect()
}

/// Returns whether cargo compiles `path` directly: the root of a library, program, test and so on.
fn is_root(path: &Path) -> bool {
    let parts: Vec<&str> = path.iter().filter_map(|p| p.to_str()).collect();
    match parts.as_slice() {
        [.., "src", "lib.rs" | "main.rs"] | [.., "build.rs"] => true,
        [.., "src", "bin", name] => name.ends_with(".rs"),
        [.., "src", "bin", _, "main.rs"] => true,
        [.., "tests" | "benches" | "examples" | "fuzz_targets", name] => name.ends_with(".rs"),
        [.., "tests" | "benches" | "examples", _, "main.rs"] => true,
        _ => false,
    }
}

/// Returns the paths at which the modules declared in `text` may lie.
fn modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let Ok(parsed) = syn::parse_file(text) else { return Vec::new() };
    let directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let stem = path.file_stem().unwrap_or_default();
    let owns_directory = is_root(path) || stem == "mod";
    let below = if owns_directory { directory.clone() } else { directory.join(stem) };
    let mut found = Vec::new();
    walk(&parsed.items, &directory, &below, &mut found);
    found
}

fn walk(items: &[syn::Item], beside: &Path, below: &Path, found: &mut Vec<PathBuf>) {
    for item in items {
        let syn::Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        if let Some((_, inner)) = &module.content {
            let deeper = below.join(&name);
            walk(inner, &deeper, &deeper, found);
        } else if let Some(path) = path_attribute(&module.attrs) {
            found.push(normal(&beside.join(path)));
        } else {
            found.push(below.join(format!("{name}.rs")));
            found.push(below.join(&name).join("mod.rs"));
        }
    }
}

/// Returns the text of `#[path = "..."]`.
fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|a| {
        let syn::Meta::NameValue(pair) = &a.meta else { return None };
        let syn::Expr::Lit(value) = &pair.value else { return None };
        match &value.lit {
            syn::Lit::Str(text) if pair.path.is_ident("path") => Some(text.value()),
            _ => None,
        }
    })
}

/// Returns `path` without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(list: &[(&str, &str)]) -> BTreeMap<PathBuf, String> {
        list.iter().map(|(p, t)| (PathBuf::from(p), (*t).to_owned())).collect()
    }

    fn dead(list: &[(&str, &str)]) -> Vec<String> {
        files(&tree(list)).iter().map(|f| f.path.display().to_string()).collect()
    }

    #[test]
    fn what_a_mod_leads_to_is_alive() {
        let none: Vec<String> = Vec::new();
        assert_eq!(
            dead(&[
                ("crates/a/src/lib.rs", "mod b; mod c; mod d { mod e; }"),
                ("crates/a/src/b.rs", "mod inner; #[path = \"../odd/name.rs\"] mod odd;"),
                ("crates/a/src/b/inner.rs", ""),
                ("crates/a/src/c/mod.rs", "mod f;"),
                ("crates/a/src/c/f.rs", ""),
                ("crates/a/src/d/e.rs", ""),
                ("crates/a/odd/name.rs", ""),
                ("crates/a/tests/e2e/main.rs", "mod x;"),
                ("crates/a/tests/e2e/x.rs", ""),
                ("crates/a/src/bin/tool.rs", ""),
                ("README.md", ""),
            ]),
            none
        );
    }

    #[test]
    fn what_no_mod_leads_to_is_dead() {
        assert_eq!(
            dead(&[
                ("crates/a/src/lib.rs", "mod b;"),
                ("crates/a/src/b.rs", ""),
                ("crates/a/src/old.rs", "mod older;"),
                ("crates/a/src/old/older.rs", ""),
                ("crates/a/tests/e2e/main.rs", ""),
                ("crates/a/tests/e2e/forgotten.rs", ""),
            ]),
            ["crates/a/src/old/older.rs", "crates/a/src/old.rs", "crates/a/tests/e2e/forgotten.rs"]
        );
    }
}
