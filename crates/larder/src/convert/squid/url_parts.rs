//! Compares the matches of an expression on whole URLs with those on URLs without a part. The
//! expression's automaton reads both URLs at once.

use std::collections::BTreeSet;

use regex_automata::Input;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;

/// Part of a URL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Scheme, host and port.
    Origin,
    Port,
}

/// How matches change if URLs lose a part.
#[derive(Debug, PartialEq, Eq)]
pub struct Changes {
    /// A URL no longer matches.
    pub loses: bool,
    /// A URL matches that did not.
    pub gains: bool,
}

/// Most pairs of states of one expression.
const PAIRS_MAX: usize = 20_000;

/// Bytes of memory for one automaton.
const AUTOMATON_MAX: usize = 8 << 20;

/// Bytes of a name or an IPv4 address.
const NAME: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789-._";

/// Bytes of an IPv6 address.
const IPV6: &[u8] = b"abcdef0123456789:.";

/// Most digits of a port.
const PORT_DIGITS: usize = 5;

/// State of the automaton; `None` once it has matched.
type State = Option<LazyStateID>;

/// Returns how the matches of an expression change without a part; `None` if that is unknown.
pub fn changes(regex: &str, part: Part) -> Option<Changes> {
    let mut automaton = Automaton::new(regex)?;
    let start = automaton.start()?;
    let mut pairs = BTreeSet::new();
    for host in automaton.hosts(start)? {
        if part == Part::Origin {
            pairs.insert((host, start));
        }
        for port in automaton.ports(host)? {
            pairs.insert((port, if part == Part::Origin { start } else { host }));
        }
    }
    automaton.changes(pairs)
}

struct Automaton {
    dfa: DFA,
    cache: Cache,
}

impl Automaton {
    fn new(regex: &str) -> Option<Automaton> {
        // It never forgets states, so equal states have equal numbers.
        let config = DFA::config().cache_capacity(AUTOMATON_MAX).minimum_cache_clear_count(Some(0));
        let syntax = syntax::Config::new().unicode(!regex.is_ascii()).utf8(false);
        let nfa = thompson::Config::new().utf8(false).nfa_size_limit(Some(AUTOMATON_MAX));
        let dfa =
            DFA::builder().configure(config).syntax(syntax).thompson(nfa).build(regex).ok()?;
        Some(Automaton { cache: dfa.create_cache(), dfa })
    }

    fn start(&mut self) -> Option<State> {
        self.dfa.start_state_forward(&mut self.cache, &Input::new("")).ok().map(Some)
    }

    fn step(&mut self, state: State, byte: u8) -> Option<State> {
        let Some(id) = state else { return Some(None) };
        let next = self.dfa.next_state(&mut self.cache, id, byte).ok()?;
        (!next.is_quit()).then(|| Some(next).filter(|next| !next.is_match()))
    }

    fn matches_at_end(&mut self, state: State) -> Option<bool> {
        let Some(id) = state else { return Some(true) };
        Some(self.dfa.next_eoi_state(&mut self.cache, id).ok()?.is_match())
    }

    fn steps(&mut self, state: State, bytes: &[u8]) -> Option<State> {
        bytes.iter().try_fold(state, |state, byte| self.step(state, *byte))
    }

    /// Returns the states behind scheme and host.
    fn hosts(&mut self, start: State) -> Option<BTreeSet<State>> {
        let mut found = BTreeSet::new();
        for scheme in ["http://", "https://"] {
            let begin = self.steps(start, scheme.as_bytes())?;
            found.extend(self.repeated(begin, NAME)?);
            let begin = self.step(begin, b'[')?;
            for state in self.repeated(begin, IPV6)? {
                found.insert(self.step(state, b']')?);
            }
        }
        Some(found)
    }

    /// Returns the states behind one or more of these bytes.
    fn repeated(&mut self, begin: State, bytes: &[u8]) -> Option<BTreeSet<State>> {
        let (mut open, mut found) = (vec![begin], BTreeSet::new());
        while let Some(state) = open.pop() {
            for byte in bytes {
                let next = self.step(state, *byte)?;
                if found.insert(next) {
                    open.push(next);
                }
            }
        }
        Some(found)
    }

    /// Returns the states behind a port, from the state behind the host.
    fn ports(&mut self, host: State) -> Option<BTreeSet<State>> {
        let (mut last, mut found) = (BTreeSet::from([self.step(host, b':')?]), BTreeSet::new());
        for _ in 0..PORT_DIGITS {
            let mut next = BTreeSet::new();
            for state in last {
                for digit in b'0'..=b'9' {
                    next.insert(self.step(state, digit)?);
                }
            }
            found.extend(next.iter().copied());
            last = next;
        }
        Some(found)
    }

    /// Compares the pairs of states behind the origin with all paths and queries.
    fn changes(&mut self, pairs: BTreeSet<(State, State)>) -> Option<Changes> {
        let bytes: Vec<u8> =
            self.dfa.byte_classes().representatives(..).filter_map(|unit| unit.as_u8()).collect();
        let (mut open, mut seen) = (Vec::new(), BTreeSet::new());
        for (with, without) in pairs {
            let pair = (self.step(with, b'/')?, self.step(without, b'/')?);
            if seen.insert(pair) {
                open.push(pair);
            }
        }
        let mut found = Changes { loses: false, gains: false };
        while let Some((with, without)) = open.pop() {
            let ends = (self.matches_at_end(with)?, self.matches_at_end(without)?);
            found.loses |= ends == (true, false);
            found.gains |= ends == (false, true);
            for byte in &bytes {
                let pair = (self.step(with, *byte)?, self.step(without, *byte)?);
                if pair.0 != pair.1 && seen.insert(pair) {
                    open.push(pair);
                }
            }
            if seen.len() > PAIRS_MAX {
                return None;
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_need_a_part_are_found() {
        let same = (false, false);
        for (regex, origin, port) in [
            ("/ads", (true, false), same),
            ("/ads\\.example\\.com", (true, false), same),
            ("\\.deb$", same, same),
            ("(?i)/Release$", same, same),
            ("\\?", same, same),
            ("^/ads", (false, true), same),
            ("gam.ng", (true, false), (false, true)),
            ("^http://[^/]*/private", (true, false), same),
            ("^http://a\\.test/", (true, false), (false, true)),
            ("^http://a\\.test:8080/", (true, false), (true, false)),
            ("^http://[^/]*:[0-9]+/", (true, false), (true, false)),
            ("a\\.test.+/private", (true, false), (true, false)),
            ("80", (true, false), (true, false)),
        ] {
            let found = |part| changes(regex, part).map(|found| (found.loses, found.gains));
            assert_eq!(
                (found(Part::Origin), found(Part::Port)),
                (Some(origin), Some(port)),
                "{regex}"
            );
        }
        assert_eq!(changes("(", Part::Port), None);
        assert_eq!(changes("(a|b)*a(a|b){20}/", Part::Port), None);
    }
}
