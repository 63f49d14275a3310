//! Tables of patterns, which are texts with stars.
//!
//! Each pattern is filed under one of its pieces, the texts between its stars: a text that does not
//! contain the piece cannot match. The chosen piece is the one that the fewest patterns share, so
//! that `/api/*/users` and `/api/*/orders` are not both tried for `/api/`. Prefix trees find the
//! pieces at the start of a text and, backwards, at its end; an automaton (Aho-Corasick) finds
//! those inside in one pass. The patterns found are then compared with the whole text.
//!
//! All take memory in proportion to the pieces, and time in proportion to the text. They ignore
//! case; the final comparison respects it where it matters.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use aho_corasick::automaton::Automaton;
use aho_corasick::dfa::DFA;
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, PatternID, StartKind};
use semantics::Pattern;

use crate::rules::tables::prefix_tree::PrefixTree;

/// Values by pattern.
#[derive(Clone, Debug)]
pub(crate) struct PatternTable<V> {
    entries: Vec<(Pattern, V)>,
    /// Positions of the patterns without a piece, which consist only of stars.
    without_piece: Vec<usize>,
    starts: Option<PrefixTree>,
    /// Of the reversed pieces.
    ends: Option<PrefixTree>,
    inside: Option<InnerPieces>,
}

/// Pieces of patterns that may be anywhere in a text.
#[derive(Clone, Debug)]
struct InnerPieces {
    automaton: PieceAutomaton,
    /// For each piece, the positions of the patterns filed under it.
    patterns: Vec<Vec<usize>>,
}

#[derive(Clone, Debug)]
enum PieceAutomaton {
    /// Of few pieces, in the form that is fastest and takes the most memory.
    Few(DFA),
    Many(NFA),
}

/// Maximum total length of the pieces in `PieceAutomaton::Few`, in bytes. The automaton has about
/// as many states, of at most 1 KiB each.
const FEW: usize = 512;

/// Place of a piece in a text, in order of increasing cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    Start,
    End,
    Inside,
}

thread_local! {
    /// A bit for each inner piece found in the text, so that each is handled once however often a
    /// client's text repeats it.
    static SEEN: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

impl<V> PatternTable<V> {
    /// Calls `found` with the values of all patterns that match the whole text.
    pub fn each(&self, text: &[u8], mut found: impl FnMut(&V)) {
        let mut compare = |patterns: &[usize]| {
            let all = patterns.iter().map(|at| &self.entries[*at]);
            all.filter(|(pattern, _)| pattern.matches(text)).for_each(|(_, value)| found(value));
        };
        compare(&self.without_piece);
        if let Some(starts) = &self.starts {
            starts.each(text.iter(), &mut compare);
        }
        if let Some(ends) = &self.ends {
            ends.each(text.iter().rev(), &mut compare);
        }
        if let Some(inside) = &self.inside {
            inside.each(text, &mut compare);
        }
    }
}

/// Positions of the patterns filed under each piece.
type Filed = BTreeMap<Vec<u8>, Vec<usize>>;

impl InnerPieces {
    /// Compiles these pieces; `None` if there are too many.
    fn new(filed: &Filed) -> Option<InnerPieces> {
        let automaton = if filed.keys().map(Vec::len).sum::<usize>() <= FEW {
            let mut builder = DFA::builder();
            builder.prefilter(false).ascii_case_insensitive(true);
            builder.start_kind(StartKind::Unanchored);
            PieceAutomaton::Few(builder.build(filed.keys()).ok()?)
        } else {
            let mut builder = NFA::builder();
            builder.prefilter(false).ascii_case_insensitive(true);
            PieceAutomaton::Many(builder.build(filed.keys()).ok()?)
        };
        Some(InnerPieces { automaton, patterns: filed.values().cloned().collect() })
    }

    /// Calls `found` with the patterns of each piece in a text.
    fn each(&self, text: &[u8], mut found: impl FnMut(&[usize])) {
        let mut seen = SEEN.take();
        seen.clear();
        seen.resize(self.patterns.len().div_ceil(64), 0);
        let find = |piece: PatternID| {
            let (word, bit) = (piece.as_usize() / 64, 1 << (piece.as_usize() % 64));
            if seen[word] & bit == 0 {
                seen[word] |= bit;
                found(&self.patterns[piece.as_usize()]);
            }
        };
        match &self.automaton {
            PieceAutomaton::Few(automaton) => walk(automaton, text, find),
            PieceAutomaton::Many(automaton) => walk(automaton, text, find),
        }
        SEEN.set(seen);
    }
}

/// Calls `found` for each piece at each position where it ends.
fn walk(automaton: &impl Automaton, text: &[u8], mut found: impl FnMut(PatternID)) {
    let Ok(mut state) = automaton.start_state(Anchored::No) else { return };
    for byte in text {
        state = automaton.next_state(Anchored::No, state, *byte);
        if automaton.is_special(state) && automaton.is_match(state) {
            for number in 0..automaton.match_len(state) {
                found(automaton.match_pattern(state, number));
            }
        }
    }
}

impl<'a, V> FromIterator<(&'a Pattern, V)> for PatternTable<V> {
    fn from_iter<I: IntoIterator<Item = (&'a Pattern, V)>>(patterns: I) -> PatternTable<V> {
        let entries: Vec<(Pattern, V)> =
            patterns.into_iter().map(|(pattern, value)| (pattern.clone(), value)).collect();
        let mut shared: BTreeMap<(Place, Vec<u8>), usize> = BTreeMap::new();
        for piece in entries.iter().flat_map(|(pattern, _)| pieces(pattern)) {
            *shared.entry(piece).or_default() += 1;
        }
        let mut filed: [Filed; 3] = Default::default();
        let mut without_piece = Vec::new();
        for (at, (pattern, _)) in entries.iter().enumerate() {
            let cost = |piece: &(Place, Vec<u8>)| (shared[piece], piece.0, Reverse(piece.1.len()));
            match pieces(pattern).into_iter().min_by_key(cost) {
                Some((place, piece)) => {
                    filed[place as usize].entry(piece).or_default().push(at);
                }
                None => without_piece.push(at),
            }
        }
        let [starts, ends, inside] = filed;
        PatternTable {
            starts: (!starts.is_empty()).then(|| PrefixTree::new(&starts)),
            ends: (!ends.is_empty()).then(|| PrefixTree::new(&ends)),
            inside: compiled(inside, &mut without_piece),
            entries,
            without_piece,
        }
    }
}

/// Returns the automaton of inner pieces, if there are any. If it cannot be built, the patterns
/// move to `without_piece`.
fn compiled(filed: Filed, without_piece: &mut Vec<usize>) -> Option<InnerPieces> {
    if filed.is_empty() {
        return None;
    }
    let made = InnerPieces::new(&filed);
    if made.is_none() {
        without_piece.extend(filed.into_values().flatten());
    }
    made
}

/// Returns the pieces of a pattern, in lower case; pieces at the end of a text are reversed.
fn pieces(pattern: &Pattern) -> Vec<(Place, Vec<u8>)> {
    let text = pattern.as_str().to_ascii_lowercase();
    let mut pieces: Vec<&[u8]> = text.as_bytes().split(|byte| *byte == b'*').collect();
    let start = (Place::Start, pieces.remove(0).to_vec());
    let end = (Place::End, pieces.pop().unwrap_or_default().iter().rev().copied().collect());
    let inside = pieces.into_iter().map(|piece| (Place::Inside, piece.to_vec()));
    [start, end].into_iter().chain(inside).filter(|(_, piece)| !piece.is_empty()).collect()
}
