//! Tables that find the rules matching a request without trying each rule.
//!
//! A list of rules is transposed. Each kind of condition (hosts, paths, methods, …) has a
//! [`Column`](column::Column): a table from condition entries to the set of rules that contain
//! them, and the set of rules without such a condition. A request is looked up once in each table.
//! The sets found there, together with the rules without a condition of the kind, are the rules
//! that match so far ([`Selection`](selection::Selection)). The first rule in the intersection of
//! all columns decides.
//!
//! The cost of a lookup depends on the request and on the conditions that it meets:
//!
//! - names (sites, methods, fields) are found by a case-insensitive hash ([`words`]);
//! - hosts by a hash of the host and of each domain above it ([`host_table`]);
//! - patterns by prefix trees and an automaton that read the text once ([`pattern_table`]);
//! - networks by a prefix tree ([`NetworkMap`](net::networks::NetworkMap));
//! - ports by a binary search ([`port_table`]).
//!
//! Rules that do not match cost one bit in each column, because sets are combined 64 rules at a
//! time. After a thread's first lookup nothing is allocated.

pub(crate) mod column;
pub(crate) mod host_table;
pub(crate) mod pattern_table;
pub(crate) mod port_table;
mod prefix_tree;
pub(crate) mod rule_set;
pub(crate) mod selection;
pub(crate) mod words;
