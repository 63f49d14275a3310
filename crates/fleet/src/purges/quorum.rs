//! Sizes of the two kinds of sets that always meet.

/// Returns how many nodes of a view of `nodes` must have a purge durably before it is accepted.
pub fn to_accept(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Returns of how many nodes of a view of `nodes`, itself included, a node must know recently what
/// they had, to trust its copies. Any so many nodes include one of those that accepted a purge.
pub fn to_trust(nodes: usize) -> usize {
    nodes + 1 - to_accept(nodes)
}

/// Returns of how many other nodes one that lost its disk must learn what they have. A purge that
/// it had accepted is at one of any so many others.
pub fn to_recover(nodes: usize) -> usize {
    nodes + 1 - to_accept(nodes)
}
