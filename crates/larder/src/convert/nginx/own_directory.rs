//! Locations without a `root`, whose files nginx looks for in a directory of its own.

use crate::convert::nginx::known;
use crate::convert::nginx::matching::Location;
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::Directive;

/// Why no directory is looked in.
pub const REASON: &str = "without root, nginx looks in its own directory, html: no file there";

/// Returns whether all that a location has are the files of that directory, outside the pages that
/// nginx comes with.
pub fn is_all(one: &Location<'_>, scope: &Scope<'_>) -> bool {
    const PAGES: [&str; 3] = ["/", "/index.html", "/50x.html"];
    const OTHERS: [&str; 6] = ["alias", "return", "rewrite", "try_files", "error_page", "if"];
    let is_other = |one: &Directive| {
        OTHERS.contains(&one.name.as_str())
            || one.name.ends_with("_pass")
            || known::loss(one).is_some()
    };
    scope.get("root").is_none()
        && !scope.block().iter().any(is_other)
        && !PAGES.iter().any(|page| one.matches(page))
}
