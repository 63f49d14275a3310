//! Derives the settings that a node of a fleet starts with: chooses missing values and reads all
//! files.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;

use cli::units;
use fleet::member::{Address, State};
use fleet::popularity::Hotness;
use fleet::purges::order::Patience;
use fleet::{ClassTable, Member, MemberId, Protocols};
use membership::gossip::Seed;
use membership::static_list;
use net::fleet_tls::FleetTls;
use proxy::peers::node::NodeOptions;

use super::FleetConfig;
use super::addresses::{advertised, node_name};
use super::listed::Listed;
use super::security::Security;

/// The inputs besides the configuration.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    pub machine: String,
    pub addresses: Vec<IpAddr>,
    /// Total size of all caches in bytes.
    pub cache_bytes: u64,
}

/// How the members of the fleet are discovered.
#[derive(Clone, Debug)]
pub enum Discovery {
    /// By gossip, beginning with these seeds; with no seeds this node is the first.
    Gossip(Vec<Seed>),
    /// By a list that includes this node.
    List(Vec<static_list::Listed>),
}

/// The settings of a node of a fleet that is ready to start.
pub struct FleetSettings {
    pub name: String,
    /// The listening address: TCP for requests of nodes, UDP for gossip.
    pub listen: SocketAddr,
    /// The node: what it announces of itself, its classes of documents, TLS towards other nodes.
    pub node: NodeOptions,
    pub discovery: Discovery,
    /// The key that seals gossip; `None`: gossip is not sealed.
    pub gossip_key: Option<[u8; 32]>,
    /// TLS between nodes, in both directions; `None`: nodes are not authenticated.
    pub tls: Option<FleetTls>,
    /// The request rate from which a document has several owners, counted over a second.
    pub hotness: Hotness,
    /// Rate limit in bytes per second for offering evicted documents to other nodes.
    pub offer_rate: u64,
    /// Bytes of memory for hints about other nodes' memories.
    pub hints_memory: usize,
    /// Warnings about files.
    pub warnings: Vec<String>,
}

impl fmt::Debug for FleetSettings {
    /// Writes the operator's view, without any keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Weight of each member of a list without capacities: divisible, for a node whose disks fail
/// announces a smaller one.
const EQUAL: u32 = 1 << 10;

/// Returns the weight of `bytes` in MiB; only 0 bytes have the weight 0.
fn weight(bytes: u64) -> u32 {
    let least = u32::from(bytes > 0);
    u32::try_from(bytes >> 20).unwrap_or(u32::MAX).max(least)
}

impl FleetConfig {
    /// Derives the settings of the node; `None` if it is in no fleet. The error contains all
    /// problems, each a sentence that begins with the key.
    pub fn settle(&self, around: &Surroundings) -> Result<Option<FleetSettings>, Vec<String>> {
        let mut wrong = Vec::new();
        let mut keep = |key: &str, why: String| wrong.push(format!("{key}: {why}"));
        let security = Security::read(self);
        let Some(listen) = self.listen else {
            // Files that nodes share are checked even if the address is given only at startup.
            return security.map(|_| None).map_err(|why| vec![why]);
        };
        let node = match &self.node {
            Some(node) => Ok(node.clone()),
            None => node_name(&around.machine, listen),
        };
        let node = node.map_err(|why| keep("fleet.node", why)).ok();
        let place = node.as_ref().and_then(|node| {
            self.place(node, listen, around).map_err(|(key, why)| keep(key, why)).ok()
        });
        let classes = self.class_table().map_err(|why| keep("fleet.class", why.to_string())).ok();
        let consistency = self.consistency().map_err(|why| keep("purge.consistency", why)).ok();
        let security = security.map_err(|why| wrong.push(why)).ok();
        let (Some(node), Some(place), Some(classes), Some(consistency), Some(security)) =
            (node, place, classes, consistency, security)
        else {
            return Err(wrong);
        };
        let Security { gossip_key, tls, seed, warnings } = security;
        let own = place.member(node, &classes);
        let purges = fleet::purges::replica::Config {
            consistency,
            patience: Patience { lease: self.lease, rest: self.lease },
        };
        let client = tls.as_ref().map(|tls| tls.client.clone());
        let at_least_one = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        Ok(Some(FleetSettings {
            name: self.name.clone(),
            listen,
            node: NodeOptions { tls: client, purges, ..NodeOptions::new(own, seed, classes) },
            discovery: match self.members.is_empty() {
                true => Discovery::Gossip(self.join.clone()),
                false => Discovery::List(self.members.iter().map(Listed::to_member).collect()),
            },
            gossip_key,
            tls,
            hotness: Hotness {
                per_owner: at_least_one(self.hot_rate),
                owners_max: at_least_one(self.hot_owners),
            },
            offer_rate: self.offer_rate,
            hints_memory: usize::try_from(self.hints_memory).unwrap_or(usize::MAX),
            warnings,
        }))
    }

    /// Returns the facts about this node that others see. The error is a key and a sentence.
    fn place(
        &self,
        node: &MemberId,
        listen: SocketAddr,
        around: &Surroundings,
    ) -> Result<Place, (&'static str, String)> {
        if self.members.is_empty() {
            let advertised = match &self.advertise {
                Some(address) => address.clone(),
                None => {
                    advertised(listen, &around.addresses).map_err(|why| ("fleet.listen", why))?
                }
            };
            let zone = self.zone.as_deref().unwrap_or_default().into();
            let weight = weight(self.capacity.unwrap_or(around.cache_bytes));
            return Ok(Place { advertised, zone, weight });
        }
        let own = self.members.iter().find(|member| member.id == *node).ok_or_else(|| {
            let why = format!("this node, {node}, is not among them: add it, or set fleet.node");
            ("fleet.members", why)
        })?;
        let static_list::Listed { address, zone, weight, .. } = own.to_member();
        Ok(Place { advertised: address, zone, weight })
    }
}

impl Listed {
    /// Returns the member as a list entry. Without capacities all members own equal shares.
    fn to_member(&self) -> static_list::Listed {
        let (id, address) = (self.id.clone(), self.address.clone());
        let zone = self.zone.as_deref().unwrap_or_default().into();
        static_list::Listed { id, address, zone, weight: self.capacity.map_or(EQUAL, weight) }
    }
}

/// The facts about this node that others see.
struct Place {
    advertised: Address,
    zone: Arc<str>,
    weight: u32,
}

impl Place {
    /// Returns the node's announcement of itself at its start.
    fn member(self, id: MemberId, classes: &ClassTable) -> Member {
        Member {
            id,
            address: self.advertised,
            zone: self.zone,
            weight: self.weight,
            load: 0,
            program: env!("CARGO_PKG_VERSION").into(),
            protocols: Protocols::OWN,
            policy_version: classes.version(),
            disk_failed: false,
            has_cache: true,
            state: State::Joining,
        }
    }
}

impl fmt::Display for FleetSettings {
    /// Writes a sentence that tells an operator which values were chosen.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FleetSettings { name, listen, .. } = self;
        let Member { id, address, zone, weight, .. } = &self.node.own;
        write!(
            f,
            "fleet {name}: this node is {id}, which listens on {listen} and is reached at {address}"
        )?;
        if !zone.is_empty() {
            write!(f, ", in zone {zone}")?;
        }
        write!(f, ", with weight {weight}; ")?;
        match &self.discovery {
            Discovery::Gossip(seeds) if seeds.is_empty() => f.write_str("it joins no node")?,
            Discovery::Gossip(seeds) => {
                let seeds: Vec<String> = seeds.iter().map(Seed::to_string).collect();
                write!(f, "it joins by {}", seeds.join(", "))?;
            }
            Discovery::List(members) => write!(f, "{} members are listed", members.len())?,
        }
        let not = |is: bool| if is { "" } else { "not " };
        let (tls, sealed) = (not(self.tls.is_some()), not(self.gossip_key.is_some()));
        write!(f, "; connections are {tls}encrypted, gossip is {sealed}sealed; ")?;
        let Hotness { per_owner, owners_max } = self.hotness;
        write!(
            f,
            "classes: {}; a document has another owner for each {per_owner} requests a second, up \
             to {owners_max}; purges wait {}; {} a second are offered; hints take {}",
            self.node.classes.iter().count(),
            units::duration(self.node.purges.patience.lease),
            units::size(self.offer_rate),
            units::size(self.hints_memory as u64),
        )
    }
}

#[cfg(test)]
mod tests;
