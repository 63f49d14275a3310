//! `if (!-f $request_filename)` around a `proxy_pass`, as the `try_files` that does the same.

use crate::convert::nginx::syntax::Directive;

/// Replaces such conditions in the locations of all servers.
pub fn expand(block: &mut [Directive]) {
    let has_root = has(block, "root");
    for server in block.iter_mut().filter(|one| one.name == "server") {
        let Some(inner) = server.block.as_mut() else { continue };
        let has_root = has_root || has(inner, "root");
        let is_location = |one: &&mut Directive| one.name == "location";
        let named = inner.iter_mut().filter(is_location).filter_map(|one| split(one, has_root));
        let named: Vec<Directive> = named.collect();
        inner.extend(named);
    }
}

fn has(block: &[Directive], name: &str) -> bool {
    block.iter().any(|one| one.name == name)
}

/// Returns the names to try before what an `if` leads to.
fn tried(one: &Directive) -> Option<&'static [&'static str]> {
    match (one.name.as_str(), one.args.join(" ").as_str()) {
        ("if", "(!-f $request_filename)") => Some(&["$uri"]),
        ("if", "(!-e $request_filename)") => Some(&["$uri", "$uri/"]),
        _ => None,
    }
}

/// Moves what a location does without a file into a named location, which is returned.
fn split(location: &mut Directive, has_root: bool) -> Option<Directive> {
    let block = location.block.as_mut()?;
    let at = block.iter().position(|one| tried(one).is_some())?;
    let inner = block[at].inner();
    // Named locations would do the rest twice, or change the path of the file.
    const OTHERS: [&str; 6] = ["if", "rewrite", "return", "try_files", "proxy_pass", "alias"];
    let has_more = |one: &Directive| OTHERS.contains(&one.name.as_str());
    let is_moved = has_root || has(block, "root");
    let is_plain = has(inner, "proxy_pass")
        && !(is_moved && has(inner, "rewrite"))
        && block.iter().enumerate().all(|(place, one)| place == at || !has_more(one));
    if !is_plain {
        return None;
    }
    let name = format!("@without a file of {}", location.args.join(" "));
    let test = block.remove(at);
    let own = test.inner().iter().filter(|one| one.name != "break");
    let around = block.iter().filter(|one| one.name != "location" && !has(test.inner(), &one.name));
    let inner: Vec<Directive> = around.chain(own).cloned().collect();
    let names = tried(&test)?.iter().map(|name| (*name).to_owned());
    let args: Vec<String> = names.chain([name.clone()]).collect();
    let new = |called: &str, args, block| {
        let (name, at) = (called.to_owned(), test.at.clone());
        Directive { name, args, at, block }
    };
    block.push(new("try_files", args, None));
    Some(new("location", vec![name], Some(inner)))
}
