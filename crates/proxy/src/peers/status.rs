//! The state of a fleet as this node sees it, for operators and for metrics.

use std::sync::Arc;

use fleet::Member;
use serde_json::{Value, json};

use crate::observe::metrics::{Samples, Source};
use crate::peers::node::Node;
use crate::peers::tally::Told;

/// Returns the state of the fleet.
pub(crate) fn view(node: &Node) -> Value {
    let (own, members, avoided) = (node.own(), node.members(), node.avoided());
    let weights: u64 =
        members.iter().filter(|member| member.may_own()).map(|m| u64::from(m.weight)).sum();
    let share = |member: &Member| match member.may_own() {
        true => f64::from(member.weight) / weights.max(1) as f64,
        false => 0.0,
    };
    let now = node.now();
    let (durable, ages) = (node.purge_vector(), node.purges().ages(now));
    let listed = members.iter().map(|member| {
        let tally = node.tally(&member.id);
        let asked: serde_json::Map<String, Value> = Told::ALL
            .iter()
            .map(|(told, word)| ((*word).to_owned(), json!(tally.total(*told))))
            .collect();
        let own = member.id == *node.id();
        json!({
            "name": member.id.as_str(),
            "address": member.address.to_string(),
            "zone": &*member.zone,
            "state": member.state.as_str(),
            "weight": member.weight,
            "share": share(member),
            "load": member.load,
            "disk_failed": member.disk_failed,
            "program": &*member.program,
            "protocols": member.protocols.to_string(),
            "policy": if own { node.classes().version() } else { member.policy_version },
            "purges": durable.newest(&member.id).map_or(0, |(_, number)| number),
            "behind": node.purges().lacks_of(&member.id),
            "news_age": ages.get(&member.id).copied().flatten().map(|age| age.as_secs_f64()),
            "passed_by": avoided.contains(&member.id),
            "asked": if own { Value::Null } else { Value::Object(asked) },
        })
    });
    json!({
        "node": node.id().as_str(),
        "state": own.state.as_str(),
        "name_in_use": node.name_in_use(),
        "caught_up": node.purges().is_current(now),
        "trust": node.purges().state(now).as_str(),
        "policy": node.classes().version(),
        "purges": durable.to_string(),
        "members": listed.collect::<Vec<_>>(),
        "lost": node.lost(),
        "left": node.left(),
        "not_understood": node.not_understood(),
    })
}

/// The figures of a node for the metrics.
pub(crate) struct FleetFigures(pub Arc<Node>);

impl Source for FleetFigures {
    fn samples(&self, out: &mut Samples) {
        let FleetFigures(node) = self;
        let members = node.members();
        let help = "Nodes of the fleet that this one knows to live, itself included.";
        out.gauge("larder_fleet_members", help, &[], members.len());
        let help =
            "1 when this node knows the purges of enough others to use its cache as a single node.";
        out.gauge("larder_fleet_caught_up", help, &[], node.purges().is_current(node.now()));
        let help = "Requests under way at this node, of clients and of other nodes.";
        out.gauge("larder_fleet_load", help, &[], node.load());
        let help = "The version of the table of classes in force.";
        out.gauge("larder_fleet_policy_version", help, &[], node.classes().version());
        let help = "Nodes that are passed by for a while, because questions to them failed.";
        out.gauge("larder_fleet_passed_by", help, &[], node.avoided().len());
        let help = "Live nodes with which this one has no protocol in common.";
        let not_understood = node.not_understood().len();
        out.gauge("larder_fleet_not_understood", help, &[], not_understood);
        for member in members.iter().filter(|member| member.id != *node.id()) {
            let tally = node.tally(&member.id);
            for (told, word) in Told::ALL {
                let help = "Questions to other nodes, by node and result.";
                let labels = [("node", member.id.as_str()), ("result", word)];
                out.counter("larder_fleet_asked", help, &labels, tally.total(told));
            }
        }
    }
}
