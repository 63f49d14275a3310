//! Declarations of a fleet: the keys of `[fleet]`, and those of a `[[fleet.class]]` table.

use std::net::SocketAddr;
use std::num::NonZeroU16;

use fleet::MemberId;
use fleet::class::{
    Class, Copies, EvictionStep, LookupStep, PRESETS, Replication, SitePattern, TypePattern,
};
use fleet::member::Address;
use membership::gossip::Seed;

use super::common::Setting;
use crate::config::configuration::Config;
use crate::config::fleet::listed::Listed;
use crate::config::listen_addr::ListenAddr;
use crate::config::setting::{Field, Take, fields};
use crate::config::value::{Checked, Kind};

const LISTEN: Kind = Kind::Checked(&Checked {
    check: |text| listen(text).is_some(),
    expected: "an IP address and a port, or a port alone for all addresses",
    value_name: "ADDR:PORT",
    example: "10.0.0.7:3130",
});

const ADDRESS: Kind = Kind::Checked(&Checked {
    check: Checked::read::<Address>,
    expected: "a host or IP address and a port",
    value_name: "HOST:PORT",
    example: "node-1.example:3130",
});

const SEED: Kind = Kind::Checked(&Checked {
    check: Checked::read::<Seed>,
    expected: "host:port, or srv:NAME for the hosts of a service in DNS",
    value_name: "HOST:PORT",
    example: "srv:_fleet._tcp.larder.example",
});

const NAME: Kind = Kind::Checked(&Checked {
    check: Checked::read::<MemberId>,
    expected: "1 to 64 of A-Z, a-z, 0-9, '-', '.' and '_'",
    value_name: "NAME",
    example: "node-1",
});

const MEMBER: Kind = Kind::Checked(&Checked {
    check: Checked::read::<Listed>,
    expected: "name@host:port, and behind it zone=NAME and capacity=SIZE where wanted",
    value_name: "MEMBER",
    example: "node-1@10.0.0.7:3130 zone=a capacity=10G",
});

const TYPE: Kind = Kind::Checked(&Checked {
    check: Checked::read::<TypePattern>,
    expected: "a media type, or a kind of them and /*",
    value_name: "TYPE",
    example: "image/*",
});

const SITE: Kind = Kind::Checked(&Checked {
    check: Checked::read::<SitePattern>,
    expected: "a host, or *. and a domain for the hosts below it",
    value_name: "HOST",
    example: "*.example.com",
});

const LOOKUP: Kind = Kind::List(&Kind::OneOf(&LookupStep::NAMES));
const EVICTION: Kind = Kind::List(&Kind::OneOf(&EvictionStep::NAMES));

/// A number of requests.
const REQUESTS: Kind = Kind::Int(0, u64::MAX);
/// A number of bytes.
const BYTES: Kind = Kind::Size(0, u64::MAX);

/// Parses a node's address. Port 0 is refused, because a port chosen by the system could not be
/// announced to the other nodes.
fn listen(text: &str) -> Option<SocketAddr> {
    text.parse::<ListenAddr>().ok()?.ip().filter(|address| address.port() != 0)
}

/// The table `[fleet]`.
pub const SETTINGS: &[Setting] = fields! {
    Config;

    /// Join a fleet, whose nodes share their caches, and listen here for other nodes: TCP for
    /// requests, UDP for membership (docs/guide/fleet.md).
    "fleet.listen", LISTEN, ["none"], word("none"), flag_called("fleet")
        => |c, v| c.fleet.listen = <Option<String> as Take>::take(v).and_then(|text| listen(&text));

    /// Where other nodes are found: host:port, all addresses of which are tried, or srv:NAME, a DNS
    /// service (SRV). One is enough, and it may be this node. None: this is the first node.
    "fleet.join", Kind::List(&SEED), [], flag_called("join") -> fleet.join;

    /// Address at which other nodes reach this one. "auto": docs/guide/fleet.md, "Addresses".
    "fleet.advertise", ADDRESS, ["auto"], word("auto"), flag_called("fleet-advertise")
        -> fleet.advertise;

    /// Name of this node, unique in the fleet, by which it owns documents. "auto" is the machine's
    /// name, the address of `fleet.listen` unless that is all addresses, and its port, such as
    /// web-1-3130.
    "fleet.node", NAME, ["auto"], word("auto"), flag_called("fleet-node") -> fleet.node;

    /// Name of the fleet. Nodes of other fleets are ignored.
    "fleet.name", Kind::Token, ["larder"] -> fleet.name;

    /// Unit that fails together, such as a rack or data centre. Copies on several nodes go to
    /// different zones.
    "fleet.zone", NAME, ["none"], word("none") -> fleet.zone;

    /// Share of documents that this node owns, relative to other nodes. "auto" is the size of its
    /// cache; 0: it owns none and passes on what others have.
    "fleet.capacity", Kind::Size(0, 1 << 50), ["auto"], word("auto") -> fleet.capacity;

    /// File with the key that all nodes share: at least 32 random bytes, in hex (`openssl rand -hex
    /// 32`), base64 or raw. Any holder is a node.
    "fleet.key-file", Kind::Path, ["none"], word("none"), flag_called("fleet-key")
        -> fleet.key_file;

    /// In place of the key: PEM file with this node's certificate, for server and client use, and
    /// intermediates up to one of `fleet.ca`.
    "fleet.certificate", Kind::Path, ["none"], word("none") -> fleet.certificate;

    /// PEM file with the private key; "none": it is in the file of `fleet.certificate`.
    "fleet.private-key", Kind::Path, ["none"], word("none") -> fleet.private_key;

    /// PEM file with the authorities of the fleet: any holder of a certificate of theirs is a node,
    /// whatever its name.
    "fleet.ca", Kind::Path, ["none"], word("none") -> fleet.ca;

    /// Without key and certificates only loopback addresses are allowed. true allows others, for
    /// closed networks.
    "fleet.insecure", Kind::Bool, ["false"] -> fleet.insecure;

    /// All members, this one included, in place of `fleet.join`. The same list on all nodes.
    /// Without capacities all own the same share.
    "fleet.members", Kind::List(&MEMBER), [] -> fleet.members;

    /// Placement of documents (docs/guide/classes.md): "larder", or that of a paper's figure.
    /// [[fleet.class]] tables replace it.
    "fleet.policy", Kind::OneOf(&PRESETS), ["larder"] -> fleet.policy;

    /// Requests a second for one document, seen at one node, per owner; above it the next owner
    /// keeps the document as well.
    "fleet.hot-rate", Kind::Int(1, 1_000_000), ["100"] -> fleet.hot_rate;

    /// Most owners of a popular document. 1: never more than one.
    "fleet.hot-owners", Kind::Int(1, 1024), ["4"] -> fleet.hot_owners;

    /// Bytes a second offered to other nodes: documents that leave memory in classes with
    /// an `eviction` beyond "drop", and documents of this node when it stops. 0: none.
    "fleet.offer-rate", Kind::Size(0, 1 << 40), ["32M"] -> fleet.offer_rate;

    /// Memory for hints about other nodes' memories, four bytes for a document. Classes by size or
    /// type take as much again.
    "fleet.hints-memory", Kind::Size(0, 1 << 36), ["4M"] -> fleet.hints_memory;
};

/// The keys of a `[[fleet.class]]` table.
pub const CLASS: &[Field<Class>] = fields! {
    Class;

    /// Name of the class in metrics and messages. The last class may be called "rest": all other
    /// documents, without criteria.
    "name", Kind::Text("a name of 1 to 32 of a-z, 0-9 and '-'"), [], required,
        example(r#""pictures""#) => |c, v| c.name = String::take(v).into();

    /// Smallest body. Documents of unknown length match classes without size bounds only.
    "size-from", BYTES, ["0"], example(r#""1K""#) -> criteria.size.from;

    /// First size above the class. "none": no bound.
    "size-below", BYTES, ["none"], word("none"), example(r#""1M""#) -> criteria.size.below;

    /// Fewest requests for the document at this node in the last five to ten minutes.
    "requests-from", REQUESTS, ["0"] -> criteria.requests.from;

    /// First number of requests above the class. "none": no bound.
    "requests-below", REQUESTS, ["none"], word("none") -> criteria.requests.below;

    /// Media types; none: any, also unknown.
    "types", Kind::List(&TYPE), [], example(r#"["image/*", "font/woff2"]"#) -> criteria.types;

    /// Hosts of the URLs; none: any.
    "sites", Kind::List(&SITE), [], example(r#"["www.example.com"]"#) -> criteria.sites;

    /// Where a document is looked for, in order (docs/guide/classes.md).
    "lookup", LOOKUP, ["memory", "disk", "owner", "origin"],
        example(r#"["memory", "peers", "disk", "owner", "origin"]"#)
        => |c, v| c.policy.lookup = Vec::<LookupStep>::take(v).into_iter().collect();

    /// Memory that keeps a document fetched through its owner: the requesting node's ("exclusive"),
    /// the owner's ("discard-cache"), both ("inclusive"), neither ("none").
    "copies", Kind::OneOf(&Copies::NAMES), ["discard-cache"] -> policy.copies;

    /// Steps for the last copy that leaves memory, in order (docs/guide/classes.md).
    "eviction", EVICTION, ["drop"], example(r#"["peer", "drop"]"#)
        => |c, v| c.policy.eviction = Vec::<EvictionStep>::take(v).into_iter().collect();

    /// Number of owners whose disks keep a document, or "all": each node that has served it.
    "replication", Kind::Int(1, u16::MAX as u64), ["1"], word("all")
        => |c, v| c.policy.replication = replication(Take::take(v));
};

fn replication(owners: Option<u16>) -> Replication {
    owners.and_then(NonZeroU16::new).map_or(Replication::All, Replication::Owners)
}

#[cfg(test)]
mod tests {
    use fleet::{ClassTable, Policy};

    use super::*;
    use crate::config::file::File;
    use crate::config::layers::Layer;
    use crate::config::loaded::Loaded;

    fn table(text: &str) -> ClassTable {
        let file = File::parse("larder.toml", text).unwrap_or_else(|why| panic!("{text}\n{why}"));
        let loaded = Loaded::build(&file, &Layer::new());
        let loaded = loaded.unwrap_or_else(|why| panic!("{text}\n{why}"));
        loaded.config.fleet.class_table().unwrap()
    }

    #[test]
    fn classes_are_written_in_the_file_as_nodes_send_them() {
        assert!(table("").iter().eq(ClassTable::named(0, "larder").unwrap().iter()));
        let every_key = "
            [[class]]
            name = 'a'
            size-from = '1K'
            size-below = 10_240
            requests-from = 1
            requests-below = 18446744073709551615
            types = ['image/*', 'Text/HTML']
            sites = '*.example.com'
            lookup = ['memory', 'disk', 'origin']
            copies = 'none'
            eviction = 'drop'
            replication = 'all'
            [[class]]
            name = 'b'
            types = 'a/b'
        ";
        let named = PRESETS.map(|name| ClassTable::named(0, name).unwrap());
        let all = named.into_iter().chain([ClassTable::from_text(0, every_key).unwrap()]);
        for expected in all {
            for text in [every_key, &expected.to_text()] {
                let read = table(&text.replace("[[class]]", "[[fleet.class]]"));
                assert!(read.iter().eq(ClassTable::from_text(0, text).unwrap().iter()), "{text}");
            }
        }
        for name in PRESETS {
            let named = table(&format!("[fleet]\npolicy = '{name}'"));
            assert!(named.iter().eq(ClassTable::named(0, name).unwrap().iter()), "{name}");
        }
    }

    #[test]
    fn the_defaults_of_a_class_are_those_of_the_fleet() {
        let Policy { lookup, copies, eviction, replication } = Policy::DEFAULT;
        let default = |key| {
            let field = CLASS.iter().find(|field| field.key == key);
            field.and_then(|field| field.default).unwrap_or_default().join(" > ")
        };
        assert_eq!(default("lookup"), lookup.to_string());
        assert_eq!(default("copies"), copies.to_string());
        assert_eq!(default("eviction"), eviction.to_string());
        assert_eq!(default("replication"), replication.to_string());
    }
}
