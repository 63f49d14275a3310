//! Prefix tree of texts without case, with one node for each place where texts part or end.

use std::collections::BTreeMap;
use std::ops::Range;

/// Positions of patterns by a text that they begin with.
///
/// The nodes lie in breadth-first order, so the children of a node are neighbours, as are their
/// labels. A lookup reads the text once, up to where no entry continues.
#[derive(Clone, Debug)]
pub(crate) struct PrefixTree {
    nodes: Box<[Node]>,
    /// For each node, the byte that leads to it from its parent.
    firsts: Box<[u8]>,
    /// The bytes behind those, node by node.
    labels: Box<[u8]>,
    positions: Box<[usize]>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// In `labels`.
    label: Range<usize>,
    /// In `nodes`, in the order of their first bytes.
    children: Range<usize>,
    /// In `positions`: those of the text that ends here.
    positions: Range<usize>,
}

impl PrefixTree {
    /// Returns the tree of these texts, which are in lower case.
    pub fn new(filed: &BTreeMap<Vec<u8>, Vec<usize>>) -> PrefixTree {
        let entries: Vec<(&[u8], &[usize])> =
            filed.iter().map(|(text, positions)| (&**text, &**positions)).collect();
        let (mut nodes, mut firsts) = (vec![Node::default()], vec![0]);
        let (mut labels, mut positions) = (Vec::new(), Vec::new());
        // For each node, its entries and the length of the text that they have in common.
        let mut below = vec![(&*entries, 0)];
        let mut at = 0;
        while let Some((mut entries, depth)) = below.get(at).copied() {
            let from = positions.len();
            if let Some(((text, of_text), longer)) = entries.split_first()
                && text.len() == depth
            {
                positions.extend_from_slice(of_text);
                entries = longer;
            }
            nodes[at].positions = from..positions.len();
            let first_child = nodes.len();
            for group in entries.chunk_by(|(a, _), (b, _)| a[depth] == b[depth]) {
                let common = common_length(group, depth);
                let from = labels.len();
                labels.extend_from_slice(&group[0].0[depth + 1..common]);
                firsts.push(group[0].0[depth]);
                nodes.push(Node { label: from..labels.len(), ..Node::default() });
                below.push((group, common));
            }
            nodes[at].children = first_child..nodes.len();
            at += 1;
        }
        PrefixTree {
            nodes: nodes.into(),
            firsts: firsts.into(),
            labels: labels.into(),
            positions: positions.into(),
        }
    }

    /// Calls `found` with the positions of each entry that a text begins with.
    pub fn each<'t>(
        &self,
        mut text: impl Iterator<Item = &'t u8>,
        mut found: impl FnMut(&[usize]),
    ) {
        let is = |known: u8, byte: &u8| *byte == known || byte.to_ascii_lowercase() == known;
        let mut node = &self.nodes[0];
        loop {
            for known in &self.labels[node.label.clone()] {
                if !text.next().is_some_and(|byte| is(*known, byte)) {
                    return;
                }
            }
            if !node.positions.is_empty() {
                found(&self.positions[node.positions.clone()]);
            }
            let Some(first) = text.next() else { return };
            let firsts = &self.firsts[node.children.clone()];
            let Ok(child) = firsts.binary_search(&first.to_ascii_lowercase()) else { return };
            node = &self.nodes[node.children.start + child];
        }
    }
}

/// Returns the length of the text that sorted entries have in common, which is more than `depth`.
fn common_length(entries: &[(&[u8], &[usize])], depth: usize) -> usize {
    let (first, last) = (entries[0].0, entries[entries.len() - 1].0);
    let more = first[depth..].iter().zip(&last[depth..]).take_while(|(a, b)| a == b).count();
    depth + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_that_a_text_begins_with_are_found() {
        let entries = ["a", "ab", "abba", "abbey", "b", "bat", "cab"];
        let filed: BTreeMap<_, _> =
            (0..).zip(entries).map(|(at, entry)| (entry.as_bytes().to_vec(), vec![at])).collect();
        let tree = PrefixTree::new(&filed);
        for text in ["", "A", "aB", "abb", "AbBa", "abbot", "abbeys", "ba", "bats", "c", "x"] {
            let mut found = Vec::new();
            tree.each(text.as_bytes().iter(), |positions| found.extend_from_slice(positions));
            let begins = |at: &usize| text.to_ascii_lowercase().starts_with(entries[*at]);
            let expected: Vec<usize> = (0..entries.len()).filter(begins).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
