//! Contradictions within `[fleet]` that can be found without looking at this machine.

use std::net::IpAddr;

use fleet::MemberId;
use fleet::class::InvalidTable;
use fleet::members::MEMBERS_MAX;
use membership::gossip::Seed;

use super::FleetConfig;
use super::addresses::is_this_machine;

/// A problem: the index of the `[[fleet.class]]` table if it is in one, the key, and a sentence.
pub type Problem = (Option<usize>, &'static str, String);

impl FleetConfig {
    /// Returns all contradictions; `given` returns whether a key was given.
    pub fn problems(&self, given: &dyn Fn(&str) -> bool) -> Vec<Problem> {
        let mut all = self.class_problems(given);
        all.extend(self.certificate_problem());
        if self.listen.is_some() {
            all.extend(self.listed_problems(given));
            all.extend(self.advertise_problem());
            all.extend(self.open_problem());
        }
        all
    }

    fn class_problems(&self, given: &dyn Fn(&str) -> bool) -> Vec<Problem> {
        let mut all = Vec::new();
        if !self.classes.is_empty() && given("fleet.policy") {
            let text = "expected it or [[fleet.class]] tables, got both".to_owned();
            all.push((None, "fleet.policy", text));
        }
        if let Err(InvalidTable { number, name, problem }) = self.class_table() {
            // The class of all other documents may be implied and then has no table.
            let table = (number - 1).min(self.classes.len().saturating_sub(1));
            all.push((Some(table), "fleet.class", format!("{name:?}: {problem}")));
        }
        all
    }

    fn certificate_problem(&self) -> Option<Problem> {
        let missing = |there, text: &str| Some((None, there, text.to_owned()));
        match (&self.certificate, &self.private_key, &self.ca) {
            (Some(_), _, None) => {
                missing("fleet.certificate", "expected fleet.ca beside it, to authenticate nodes")
            }
            (None, Some(_), _) => {
                missing("fleet.private-key", "expected fleet.certificate beside it")
            }
            (None, None, Some(_)) => missing("fleet.ca", "expected fleet.certificate beside it"),
            _ => None,
        }
    }

    fn listed_problems(&self, given: &dyn Fn(&str) -> bool) -> Vec<Problem> {
        let mut all: Vec<Problem> = Vec::new();
        if self.members.is_empty() {
            return all;
        }
        let mut complain = |key, text: String| all.push((None, key, text));
        if !self.join.is_empty() {
            let text = "expected fleet.join or fleet.members, got both: listed members need no \
                        discovery";
            complain("fleet.members", text.to_owned());
        }
        for key in ["fleet.advertise", "fleet.zone", "fleet.capacity"] {
            if given(key) {
                let text = "applies only to members that discover each other: give address, zone \
                            and capacity in fleet.members";
                complain(key, text.to_owned());
            }
        }
        if self.members.len() > MEMBERS_MAX {
            let text = format!("a fleet has at most {MEMBERS_MAX}, got {}", self.members.len());
            complain("fleet.members", text);
        }
        let mut names: Vec<&MemberId> = self.members.iter().map(|member| &member.id).collect();
        names.sort_unstable();
        for pair in names.windows(2).filter(|pair| pair[0] == pair[1]) {
            complain("fleet.members", format!("{} is given twice", pair[0]));
        }
        let with = self.members.iter().filter(|member| member.capacity.is_some()).count();
        if with > 0 && with < self.members.len() {
            let text = "expected a capacity for all members or for none: without capacities all \
                        own the same share";
            complain("fleet.members", text.to_owned());
        }
        all
    }

    fn advertise_problem(&self) -> Option<Problem> {
        let ip = self.advertise.as_ref()?.host().parse::<IpAddr>().ok()?.to_canonical();
        (ip.is_unspecified() || ip.is_multicast()).then(|| {
            let text = format!("expected an address of this node alone, got {ip}");
            (None, "fleet.advertise", text)
        })
    }

    /// Returns whether nodes authenticate each other.
    pub fn is_secured(&self) -> bool {
        self.key_file.is_some() || self.certificate.is_some()
    }

    /// Returns a problem if a fleet without key and certificates would be exposed to a network.
    fn open_problem(&self) -> Option<Problem> {
        if self.insecure || self.is_secured() {
            return None;
        }
        let advice = "without fleet.key-file anyone who can reach it could read and replace \
                      stored objects: set it (or fleet.certificate and fleet.ca), use 127.0.0.1, \
                      or set fleet.insecure = true on an isolated network";
        let open = |key, address: String| Some((None, key, format!("{address}: {advice}")));
        if let Some(listen) = self.listen.filter(|at| !is_this_machine(&at.ip().to_string())) {
            return open("fleet.listen", listen.to_string());
        }
        let advertised = self.advertise.iter().map(|address| ("fleet.advertise", address));
        let members = self.members.iter().map(|member| ("fleet.members", &member.address));
        let mut addresses = advertised.chain(members);
        if let Some((key, far)) = addresses.find(|(_, at)| !is_this_machine(at.host())) {
            return open(key, far.to_string());
        }
        let is_near = |seed: &&Seed| match seed {
            Seed::Address(address) => is_this_machine(&address.ip().to_string()),
            Seed::Host(address) => is_this_machine(address.host()),
            Seed::Service(_) => false,
        };
        let far = self.join.iter().find(|seed| !is_near(seed))?;
        open("fleet.join", far.to_string())
    }

    /// Returns warnings about settings that are allowed but probably unintended.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        let Some(listen) = self.listen else {
            if self.is_secured() || !self.join.is_empty() || !self.members.is_empty() {
                let text = "[fleet] has no effect without fleet.listen or --fleet: this node is \
                            alone";
                all.push(text.to_owned());
            }
            return all;
        };
        if self.insecure && self.is_secured() {
            all.push("fleet.insecure has no effect: the nodes have a key".to_owned());
        }
        if self.insecure && !self.is_secured() {
            all.push(format!(
                "fleet.insecure: ANYONE WHO REACHES {listen} CAN READ AND REPLACE STORED OBJECTS"
            ));
        }
        if self.key_file.is_none() && self.certificate.is_some() && self.members.is_empty() {
            let text = "fleet.certificate protects only connections between nodes: anyone who can \
                        send to this network can forge gossip and split the fleet; also set \
                        fleet.key-file, or list the nodes in fleet.members";
            all.push(text.to_owned());
        }
        all
    }
}
