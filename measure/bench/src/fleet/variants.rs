//! The systems whose nodes are measured, and how their nodes share.

use crate::systems::System;

/// A system with a way in which its nodes share their caches.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The name in tables.
    pub name: String,
    /// The program.
    pub system: System,
    /// True for nodes of Larder that form a fleet.
    pub is_fleet: bool,
    /// True if they authenticate with a key and use TLS between each other.
    pub has_key: bool,
    /// True if the first node owns all documents, as in the paper of the presets.
    pub has_disk_node: bool,
    /// The table of classes to activate; `None`: the default.
    pub classes: Option<String>,
}

/// Documents are kept in memory and on disk only by their owners, as the other systems do.
const OWNER: &str = "[[class]]\nname = \"rest\"\ncopies = \"discard-cache\"\n";
/// Documents from another node are kept in memory by both.
const INCLUSIVE: &str = "[[class]]\nname = \"rest\"\ncopies = \"inclusive\"\n";
/// The same, and other memories are asked first.
const COOPERATE: &str = "\
[[class]]
name = \"rest\"
lookup = [\"memory\", \"peers\", \"disk\", \"owner\", \"origin\"]
copies = \"inclusive\"
";
/// Other memories are asked first, and only the node that asked keeps a copy.
const EXCLUSIVE: &str = "\
[[class]]
name = \"rest\"
lookup = [\"memory\", \"peers\", \"disk\", \"owner\", \"origin\"]
copies = \"exclusive\"
";
/// The same, and evicted copies are offered to other nodes.
const OFFER: &str = "\
[[class]]
name = \"rest\"
lookup = [\"memory\", \"peers\", \"disk\", \"owner\", \"origin\"]
copies = \"exclusive\"
eviction = [\"peer\", \"drop\"]
";

/// Policies for copies in memory, each of which adds one mechanism to the previous one.
const MECHANISMS: [(&str, &str); 5] = [
    (", copies at owners", OWNER),
    (", copies at both", INCLUSIVE),
    (", copies at both, hints", COOPERATE),
    (", copies at who asked, hints", EXCLUSIVE),
    (", copies at who asked, hints, offers", OFFER),
];

fn fleet(larder: &System, words: &str, classes: Option<&str>) -> Variant {
    let name = format!("Larder, fleet{words}");
    let classes = classes.map(str::to_owned);
    Variant { is_fleet: true, classes, ..other(larder, &name) }
}

/// Returns the variants of these systems that *sharing* measures.
pub fn sharing(systems: &[System]) -> Vec<Variant> {
    let each = systems.iter().flat_map(|system| match system.is_larder() {
        true => vec![
            fleet(system, "", None),
            fleet(system, ", kept by the owner", Some(OWNER)),
            fleet(system, ", inclusive", Some(INCLUSIVE)),
            other(system, "Larder, no fleet"),
        ],
        false => vec![other(system, &system.name)],
    });
    each.collect()
}

/// Returns the variants that *remote* measures.
pub fn remote(systems: &[System]) -> Vec<Variant> {
    let each = systems.iter().flat_map(|system| match system.is_larder() {
        true => {
            let plain = fleet(system, ", kept by the owner", Some(OWNER));
            let name = format!("{}, TLS", plain.name);
            vec![plain.clone(), Variant { name, has_key: true, ..plain }]
        }
        false => vec![other(system, &system.name)],
    });
    each.collect()
}

/// Returns the variants that *mechanisms* measures.
pub fn mechanisms(systems: &[System]) -> Vec<Variant> {
    let larder = systems.iter().filter(|system| system.is_larder());
    larder
        .flat_map(|larder| MECHANISMS.map(|(words, classes)| fleet(larder, words, Some(classes))))
        .collect()
}

/// Returns a variant of Larder for each of these presets.
pub fn presets<'a>(systems: &[System], presets: impl Iterator<Item = &'a str>) -> Vec<Variant> {
    let Some(larder) = systems.iter().find(|system| system.is_larder()) else { return Vec::new() };
    let variant = |preset: &str| {
        let classes = Some(format!("preset = {preset:?}"));
        Variant { is_fleet: true, has_disk_node: true, classes, ..other(larder, preset) }
    };
    presets.map(variant).collect()
}

fn other(system: &System, name: &str) -> Variant {
    let (name, system) = (name.to_owned(), system.clone());
    let (is_fleet, has_key, has_disk_node) = (false, false, false);
    Variant { name, system, is_fleet, has_key, has_disk_node, classes: None }
}
