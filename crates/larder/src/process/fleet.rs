//! Sets up this process as a node of a fleet.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use membership::Membership;
use membership::gossip;
use membership::gossip::Gossip;
use membership::static_list::StaticList;
use net::clock::TokioClock;
use proxy::FleetSetup;
use proxy::peers::node::{Node, NodeOptions};
use upstream::settings::lookup::Lookup;

use crate::config::fleet::{Discovery, FleetSettings};

/// How long a listed node may be silent before it counts as lost.
const SILENCE: Duration = Duration::from_secs(3);

/// Intervals of hello requests between nodes: with a list of members, and with gossip.
const HELLO_OF_LISTED: Duration = Duration::from_millis(500);
const HELLO_OF_GOSSIPING: Duration = Duration::from_secs(30);

/// Creates this process's node of the fleet. `lookup` resolves the names of other nodes.
pub fn setup(settings: &FleetSettings, lookup: Arc<dyn Lookup>, clock: TokioClock) -> FleetSetup {
    let options = NodeOptions {
        hotness: settings.hotness,
        offer_rate: settings.offer_rate,
        hints_memory: settings.hints_memory,
        ..settings.node.clone()
    };
    let node = Node::new(options, lookup, clock);
    let own = settings.node.own.clone();
    match &settings.discovery {
        Discovery::Gossip(seeds) => {
            let (fleet, bind, key) = (settings.name.clone(), settings.listen, settings.gossip_key);
            let advertise = own.address.host().parse().ok();
            let advertise = advertise.map(|host: IpAddr| SocketAddr::new(host, own.address.port()));
            let has_seeds = !seeds.is_empty();
            let seeds = seeds.clone();
            let start = move || {
                let settings = gossip::Settings {
                    fleet: fleet.clone(),
                    bind,
                    advertise,
                    own: own.clone(),
                    seeds: seeds.clone(),
                    name_servers: Vec::new(),
                    key,
                };
                let gossip = Gossip::start(settings, clock).map_err(|why| why.to_string())?;
                Ok(Arc::new(gossip) as Arc<dyn Membership>)
            };
            let members = Box::new(start);
            FleetSetup { node, members, has_seeds, hello_every: HELLO_OF_GOSSIPING }
        }
        Discovery::List(list) => {
            let has_seeds = list.iter().any(|listed| listed.id != own.id);
            let list = list.clone();
            let start = move || {
                let list = StaticList::new(own.clone(), &list, SILENCE, clock.running());
                let list = list.map_err(|why| format!("fleet.members: {why}"))?;
                Ok(Arc::new(list) as Arc<dyn Membership>)
            };
            let members = Box::new(start);
            FleetSetup { node, members, has_seeds, hello_every: HELLO_OF_LISTED }
        }
    }
}
