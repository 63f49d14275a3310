//! `cache_peer`, and the lists that say which requests a peer gets.

use crate::convert::cases::Cases;
use crate::convert::output::{NOWHERE, Output, list, text};
use crate::convert::rule_draft::{RuleDraft, Tests};
use crate::convert::squid::decisions::Decisions;
use crate::convert::squid::line::Line;

/// Origin servers in their order.
#[derive(Default)]
pub struct Peers {
    all: Vec<Peer>,
}

struct Peer {
    name: String,
    server: String,
    decisions: Decisions,
}

impl Peers {
    /// Reads `cache_peer`.
    pub fn add(&mut self, line: &Line, out: &mut Output) {
        let (host, kind, port) = (line.word(1), line.word(2), line.word(3));
        let has = |option: &str| line.words.iter().any(|word| word == option);
        if kind != "parent" || !has("originserver") {
            let reason = "caches do not ask each other (fleets share caches)";
            return out.lose(&line.at, "cache_peer", reason);
        }
        let scheme = if has("ssl") || has("tls") { "https" } else { "http" };
        let mut server = format!("{scheme}://{host}:{port}");
        let mut name = host;
        for word in line.words.iter().skip(5) {
            match word.split_once('=').unwrap_or((word, "")) {
                ("weight", n) => server.push_str(&format!(" weight={n}")),
                ("max-conn", n) => server.push_str(&format!(" max-conns={n}")),
                ("name", own) => name = own,
                (
                    "no-query" | "no-digest" | "no-netdb-exchange" | "originserver" | "round-robin"
                    | "default" | "ssl" | "tls",
                    _,
                )
                | ("login", "PASS" | "PASSTHRU") => {}
                ("forceddomain", _) => {
                    out.set("reverse-host", text("upstream"));
                    out.lose(&line.at, "forceddomain", "the server gets its own name as Host");
                }
                (option, _) => {
                    let name = format!("cache_peer {option}");
                    out.lose(&line.at, &name, "no equivalent of this option");
                }
            }
        }
        let (name, decisions) = (name.to_owned(), Decisions::default());
        self.all.push(Peer { name, server, decisions });
    }

    /// Reads `cache_peer_access NAME allow|deny LIST…`, with the lists as a condition.
    pub fn access(&mut self, line: &Line, when: Result<Option<Tests>, String>, out: &mut Output) {
        let Some(peer) = self.get(line, out) else { return };
        let denies = line.word(2) != "allow";
        if let Err(why) = peer.decisions.decide(when, denies) {
            let effect = match denies {
                true => "no further requests go to this server",
                false => "these requests do not go to this server",
            };
            out.lose(&line.at, &line.words.join(" "), &format!("{why}: {effect}"));
        }
    }

    /// Reads `cache_peer_domain NAME DOMAIN…`.
    pub fn domains(&mut self, line: &Line, out: &mut Output) {
        let Some(peer) = self.get(line, out) else { return };
        for word in line.words.iter().skip(2) {
            let (denies, domain) = match word.strip_prefix('!') {
                Some(domain) => (true, domain),
                None => (false, word.as_str()),
            };
            let when = Ok(Some(Tests::one("hosts", domain)));
            if let Err(why) = peer.decisions.decide(when, denies) {
                out.lose(&line.at, &line.words.join(" "), &why);
            }
        }
    }

    fn get(&mut self, line: &Line, out: &mut Output) -> Option<&mut Peer> {
        let found = self.all.iter_mut().find(|peer| peer.name == line.word(1));
        if found.is_none() {
            out.lose(&line.at, &line.words.join(" "), "there is no such origin server");
        }
        found
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Writes the servers: those for all requests as `reverse`, others by rules. The first server
    /// that may get a request gets it, so its rule comes last.
    pub fn push(self, out: &mut Output) {
        let mut groups: Vec<(Cases, String, Vec<String>)> = Vec::new();
        for peer in self.all {
            let (name, server) = (peer.name.clone(), peer.server.clone());
            let cases = peer.decisions.allowed();
            match groups.iter_mut().find(|(known, ..)| *known == cases) {
                Some((.., servers)) => servers.push(server),
                None => groups.push((cases, name, vec![server])),
            }
        }
        let for_all = groups.iter().find(|(cases, ..)| *cases == [Tests::default()]);
        let for_all = for_all.map_or_else(|| vec![NOWHERE.to_owned()], |(.., all)| all.clone());
        out.set("reverse", list(&for_all));
        for (cases, name, servers) in groups.iter().rev() {
            for case in cases.iter().filter(|case| !case.0.is_empty()) {
                let mut rule = RuleDraft::new(&format!("cache_peer {name}"), case);
                rule.continues = true;
                rule.set("upstream", list(servers));
                rule.push(out);
            }
        }
    }
}
