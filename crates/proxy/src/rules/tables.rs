//! Tables by which the rules that fit a request are found without trying each.
//!
//! A list of rules is turned on its side. For each kind of condition (hosts, paths, methods …)
//! there is a [`Column`](column::Column): a table from what the conditions name to the set of
//! rules that name it, and the set of rules without such a condition. A request is looked up once
//! in each table; the sets found there, with the rules that have no condition of the kind, are
//! those that fit so far ([`Selection`](selection::Selection)). The first rule in the intersection
//! of all columns is the one.
//!
//! The cost of a lookup follows from the request and from the conditions that it meets:
//!
//! - names (sites, methods, fields) are found by a hash of their letters without case
//!   ([`words`]);
//! - hosts by a hash of the host and of each domain above it ([`host_table`]);
//! - patterns by an automaton that reads the text once ([`pattern_table`]);
//! - networks by a prefix tree ([`NetworkMap`](net::networks::NetworkMap));
//! - ports by a binary search ([`port_table`]).
//!
//! Rules that do not fit cost one bit in each column: the sets are combined 64 rules at a time.
//! Nothing is allocated once a thread has looked up its first request.

pub(crate) mod column;
pub(crate) mod host_table;
pub(crate) mod pattern_table;
pub(crate) mod port_table;
pub(crate) mod rule_set;
pub(crate) mod selection;
pub(crate) mod words;
