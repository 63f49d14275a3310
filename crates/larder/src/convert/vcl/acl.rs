//! `acl`: networks of clients with exceptions.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::convert::output::Output;
use crate::convert::vcl::syntax::Statement;

/// The clients of an `acl`.
#[derive(Clone, Debug, Default)]
pub struct Acl {
    /// Networks without the exceptions.
    pub networks: Vec<String>,
    /// Entries are lost, so that more clients may be in the list.
    pub is_partial: bool,
}

/// Lists by their names.
pub type Acls = BTreeMap<String, Acl>;

/// Reads an `acl`.
pub fn read(acl: &Statement, out: &mut Output) -> Acl {
    let (mut entries, mut is_partial, mut loses_exception) = (Vec::new(), false, false);
    for entry in acl.inner() {
        let words = entry.tokens.iter().map(|token| token.text.as_str());
        let words: Vec<&str> = words.filter(|word| !matches!(*word, "(" | ")")).collect();
        let (is_not, words) = match &words[..] {
            ["!", rest @ ..] => (true, rest),
            all => (false, all),
        };
        match networks(words) {
            Some(found) => entries.extend(found.into_iter().map(|one| (is_not, one))),
            None => {
                is_partial = true;
                loses_exception |= is_not;
                out.lose(&entry.at(), "acl", "expected an address or a network");
            }
        }
    }
    if loses_exception {
        entries.clear();
    }
    let mut networks: Vec<String> = difference(entries).into_iter().map(written).collect();
    if networks.is_empty() {
        // An empty list would be one for all clients.
        networks.push("0.0.0.0/32".to_owned());
    }
    Acl { networks, is_partial }
}

/// Returns the networks of an entry.
fn networks(words: &[&str]) -> Option<Vec<IpNet>> {
    let texts = match *words {
        ["localhost"] => vec!["127.0.0.1/32".to_owned(), "::1/128".to_owned()],
        // Varnish reads it as a network, too.
        [network] if network.contains('/') => vec![network.to_owned()],
        [address] => {
            let address: std::net::IpAddr = address.parse().ok()?;
            return Some(vec![IpNet::from(address)]);
        }
        [address, "/", bits] => vec![format!("{address}/{bits}")],
        _ => return None,
    };
    texts.iter().map(|text| text.parse::<IpNet>().ok().map(|one| one.trunc())).collect()
}

/// Returns the networks of a list whose entries may be exceptions. The longest entry decides on an
/// address.
fn difference(mut entries: Vec<(bool, IpNet)>) -> Vec<IpNet> {
    if entries.iter().any(|(is_not, _)| *is_not) {
        entries.sort_by_key(|(is_not, network)| (network.prefix_len(), *is_not));
    }
    let mut all: Vec<IpNet> = Vec::new();
    for (is_not, network) in entries {
        match is_not {
            true => all = all.into_iter().flat_map(|one| without(one, network)).collect(),
            false if all.iter().any(|one| one.contains(&network)) => {}
            false => all.push(network),
        }
    }
    all
}

/// Returns a network without the addresses of another.
fn without(network: IpNet, other: IpNet) -> Vec<IpNet> {
    if other.contains(&network) {
        return Vec::new();
    }
    if !network.contains(&other) {
        return vec![network];
    }
    let halves = network.subnets(network.prefix_len() + 1);
    halves.into_iter().flatten().flat_map(|half| without(half, other)).collect()
}

fn written(network: IpNet) -> String {
    match network.prefix_len() == network.max_prefix_len() {
        true => network.addr().to_string(),
        false => network.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_taken_out_of_networks() {
        let read = |entries: &[(bool, &str)]| {
            let parsed = entries.iter().map(|(is_not, text)| (*is_not, text.parse().unwrap()));
            difference(parsed.collect()).into_iter().map(written).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            read(&[(true, "10.0.0.5/32"), (false, "10.0.0.0/29")]),
            "10.0.0.0/30 10.0.0.4 10.0.0.6/31"
        );
        assert_eq!(read(&[(false, "10.0.0.1/32"), (true, "10.0.0.0/8")]), "10.0.0.1");
        assert_eq!(read(&[(false, "10.0.0.0/8"), (true, "10.0.0.0/8")]), "");
        assert_eq!(read(&[(false, "10.0.0.0/8"), (true, "::/0")]), "10.0.0.0/8");
    }
}
