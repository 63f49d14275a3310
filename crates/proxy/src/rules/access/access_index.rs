//! The conditions of a list of access rules, compiled so that a request finds its rule without
//! trying each rule ([`tables`](crate::rules::tables)).

use std::net::IpAddr;

use http::Method;
use net::address;
use net::networks::NetworkMap;

use crate::rules::access::{Action, Query, Rule};
use crate::rules::tables::column::Column;
use crate::rules::tables::host_table::HostTable;
use crate::rules::tables::port_table::PortTable;
use crate::rules::tables::rule_set::{RuleSet, bits_of};
use crate::rules::tables::selection::Selection;
use crate::rules::tables::words::Words;

/// Compiled conditions of a list of access rules. A column is `None` if no rule has a condition of
/// its kind.
#[derive(Debug, Default)]
pub(super) struct AccessIndex {
    count: usize,
    /// Bits of the rules that deny.
    denying: Box<[u64]>,
    clients: Option<Column<NetworkMap<RuleSet>>>,
    methods: Option<Column<Words<RuleSet>>>,
    hosts: Option<Column<HostTable<RuleSet>>>,
    ports: Option<Column<PortTable<RuleSet>>>,
    destinations: Option<Column<NetworkMap<RuleSet>>>,
}

/// Rules that a request may match, up to the first that it matches whatever the address.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeadMatches {
    /// True if one of them allows the request.
    pub allowed: bool,
    /// True if one of them depends on the address.
    pub by_address: bool,
    /// True if the last one does not depend on the address.
    pub decided: bool,
}

/// Rule that decides on a request to an address.
pub(super) struct Match {
    number: usize,
    pub action: Action,
}

impl AccessIndex {
    pub fn new(rules: &[Rule]) -> AccessIndex {
        let count = rules.len();
        AccessIndex {
            count,
            denying: bits_of(count, |number| rules[number].action == Action::Deny),
            clients: Column::new(count, |number| rules[number].clients.clone()),
            methods: Column::new(count, |number| {
                rules[number].methods.iter().map(Method::as_str).collect()
            }),
            hosts: Column::new(count, |number| rules[number].hosts.iter().collect()),
            ports: Column::new(count, |number| {
                rules[number].ports.iter().map(|ports| (*ports.0.start(), *ports.0.end())).collect()
            }),
            destinations: Column::new(count, |number| rules[number].destinations.clone()),
        }
    }

    /// Returns the rules that a request may match while its address is unknown.
    pub fn head_matches(&self, query: &Query<'_>) -> HeadMatches {
        if self.count == 0 {
            return HeadMatches::default();
        }
        Selection::with(self.count, |fitting| {
            self.narrow_by_head(fitting, query);
            let mut matches = HeadMatches::default();
            for (at, (&fits, &denying)) in fitting.bits().iter().zip(&self.denying).enumerate() {
                let any_address = self.destinations.as_ref().map_or(u64::MAX, |all| all.any[at]);
                let certain = fits & any_address;
                let first = certain & certain.wrapping_neg();
                // All bits up to the first certain one, or all bits if there is none.
                let fits = fits & (first.wrapping_sub(1) | first);
                matches.allowed |= fits & !denying != 0;
                matches.by_address |= fits & !any_address != 0;
                if first != 0 {
                    matches.decided = true;
                    break;
                }
            }
            matches
        })
    }

    /// Returns the rule that decides on a request to an address: the first match. A denying rule
    /// considers each form of the address ([`address::faces`]), an allowing rule only the address
    /// itself.
    pub fn find(&self, query: &Query<'_>, ip: IpAddr) -> Option<Match> {
        if self.count == 0 {
            return None;
        }
        Selection::with(self.count, |fitting| {
            self.narrow_by_head(fitting, query);
            if let Some(destinations) = &self.destinations {
                fitting.narrow_by_two((destinations, &self.denying), |networks, itself, faces| {
                    networks.each(address::canonical(ip), |rules| rules.add_to(itself));
                    for face in address::faces(ip) {
                        networks.each(face, |rules| rules.add_to(faces));
                    }
                });
            }
            let number = fitting.first()?;
            let denies = self.denying[number / 64] >> (number % 64) & 1 == 1;
            Some(Match { number, action: if denies { Action::Deny } else { Action::Allow } })
        })
    }

    /// Returns whether a matching rule names a network that contains an address.
    pub fn names_network_of(&self, matched: &Match, ip: IpAddr) -> bool {
        let mut is_named = false;
        if let Some(destinations) = &self.destinations {
            destinations.table.each(ip, |rules| is_named |= rules.contains(matched.number));
        }
        is_named
    }

    /// Keeps the rules that match in everything except the destination's address. A server may take
    /// `delete` for DELETE, so a denying rule ignores the case of a method; an allowing rule does
    /// not.
    fn narrow_by_head(&self, fitting: &mut Selection, query: &Query<'_>) {
        if let Some(clients) = &self.clients {
            let client = address::canonical(query.client);
            fitting.narrow(clients, |networks, fits| {
                networks.each(client, |rules| rules.add_to(fits));
            });
        }
        if let Some(methods) = &self.methods {
            fitting.narrow_by_method((methods, &self.denying), query.method.as_str());
        }
        if let Some(hosts) = &self.hosts {
            fitting.narrow(hosts, |hosts, fits| hosts.each(query.host, |rules| rules.add_to(fits)));
        }
        if let Some(ports) = &self.ports {
            fitting.narrow(ports, |ports, fits| ports.each(query.port, |rules| rules.add_to(fits)));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
