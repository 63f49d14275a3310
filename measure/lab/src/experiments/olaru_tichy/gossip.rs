//! Beyond the paper: the cost for a fleet of up to a thousand nodes of knowing its members and the
//! holders of copies.
//!
//! Gossip is that of chitchat 0.13 (Scuttlebutt reconciliation). Every half second a node sends a
//! digest of its knowledge to three others. Each replies with its own digest and all newer values,
//! and receives newer values in turn. Sizes are those of its two formats; the second one compresses
//! the first. The spread of a change is simulated: nodes start their rounds at different times, an
//! exchange takes no time, and a datagram is lost if one of its packets is.

use fleet::hints::Hints;
use fleet::{KeyHash, MemberId};

use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table,
};
use workload::generator::distributions::SplitMix;

/// The experiment `olaru-tichy-gossip`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "olaru-tichy-gossip",
    paper: Paper::OlaruTichy,
    place: "beyond the paper",
    title: "What a fleet of a thousand nodes costs in gossip and hints",
    parameters: &[
        Parameter { name: "rounds", value: "one in 500 ms, with three others", from: "chitchat" },
        Parameter {
            name: "a node in a digest",
            value: "2 + name, 8 (generation), 7 (IPv4 address), 24 (three versions) bytes",
            from: "chitchat",
        },
        Parameter { name: "names", value: "node-0 to node-999", from: "ours" },
        Parameter {
            name: "changes",
            value: "each node tells its load once a second",
            from: "ours: what the product does at most",
        },
        Parameter { name: "trials", value: "20 (quick: 5)", from: "ours" },
    ],
    seconds: [3, 10],
    run,
};

const SIZES: [usize; 5] = [10, 50, 200, 500, 1_000];
const FANOUT: usize = 3;
const ROUNDS: f64 = 2.0;
/// Bytes of a message before the digest, and of a SYN after it (the fleet's name, "larder").
const HEAD: usize = 4;
const NAME: usize = 8;
/// Maximum bytes of a UDP datagram over IPv4, and of its part in an Ethernet packet.
const DATAGRAM: usize = 65_507;
const PACKET: usize = 1_472;
/// Bytes of a block that is compressed as a whole.
const BLOCK: usize = 16_384;

fn name(node: usize) -> String {
    format!("node-{node}")
}

/// Appends the bytes that identify a node.
fn put_id(buffer: &mut Vec<u8>, node: usize) {
    let name = name(node);
    buffer.extend((name.len() as u16).to_le_bytes());
    buffer.extend(name.as_bytes());
    // Its start time, whose upper half is the same for all nodes, and its address.
    buffer.extend((1_700_000_000_u64 * 1_000 + node as u64 * 7_919).to_le_bytes());
    buffer.push(4);
    buffer.extend([10, 0, (node >> 8) as u8, node as u8]);
    buffer.extend(7_946_u16.to_le_bytes());
}

/// Returns a digest of `nodes` nodes whose counters have run for about a day.
fn digest(nodes: usize, seed: u64) -> Vec<u8> {
    let mut buffer = (nodes as u16).to_le_bytes().to_vec();
    for node in 0..nodes {
        put_id(&mut buffer, node);
        let mut dice = SplitMix::of(seed, node as u64);
        let heartbeat = 600_000 + dice.below(50_000);
        for version in [heartbeat, 0, 80_000 + dice.below(9_000)] {
            buffer.extend(version.to_le_bytes());
        }
    }
    buffer
}

/// Returns a delta of `nodes` nodes: for each its name and one value of six bytes under a key of
/// four.
fn delta(nodes: usize) -> Vec<u8> {
    let mut buffer = Vec::new();
    for node in 0..nodes {
        buffer.push(0);
        put_id(&mut buffer, node);
        buffer.extend([0_u64, 80_000 + node as u64].map(u64::to_le_bytes).concat());
        buffer.push(1);
        buffer.extend([4, 0].iter().chain(b"load").chain(&[6, 0]));
        buffer.extend(format!("{:06}", node * 13 % 997).as_bytes());
        buffer.extend((80_001 + node as u64).to_le_bytes());
        buffer.push(0);
    }
    buffer
}

/// Returns the bytes of a stream of blocks, each compressed.
fn compressed(bytes: &[u8]) -> Result<usize, Failed> {
    let blocks = bytes.chunks(BLOCK).map(|block| {
        let packed = zstd::bulk::compress(block, 0).map_err(|why| Failed(why.to_string()))?;
        Ok(3 + packed.len().min(block.len()))
    });
    Ok(1 + blocks.sum::<Result<usize, Failed>>()?)
}

/// The cost of gossip for one node.
struct Cost {
    /// Bytes of a digest, plain and compressed.
    digest: [usize; 2],
    /// Bytes per second that a node sends, with plain and with compressed digests.
    sent: [f64; 2],
}

fn cost(nodes: usize, seed: u64) -> Result<Cost, Failed> {
    let raw = digest(nodes, seed);
    let sizes = [raw.len(), 2 + compressed(&raw)?];
    // Each change reaches each node once. A node receives all changes of a second, spread over its
    // exchanges, and sends as many.
    let exchanges = 2.0 * FANOUT as f64 * ROUNDS;
    let in_one = (nodes as f64 / exchanges).ceil() as usize;
    let deltas = exchanges * compressed(&delta(in_one))? as f64;
    let sent = sizes.map(|digest| {
        let syn = HEAD + digest + NAME;
        let syn_ack = HEAD + digest;
        let ack = HEAD;
        FANOUT as f64 * ROUNDS * (syn + syn_ack + ack) as f64 + deltas
    });
    Ok(Cost { digest: sizes, sent })
}

/// Returns the seconds until half, 99% and all of the nodes know of a change at one of them. `loss`
/// is the share of lost datagrams.
fn spread(nodes: usize, loss: f64, seed: u64) -> [f64; 3] {
    let mut dice = SplitMix::new(seed);
    let mut order: Vec<(f64, usize)> = (0..nodes).map(|node| (dice.uniform(), node)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut knows = vec![false; nodes];
    knows[dice.below(nodes as u64) as usize] = true;
    let mut known = 1;
    let began = dice.uniform();
    let marks = [nodes / 2, (nodes * 99).div_ceil(100), nodes];
    let mut times = [f64::NAN; 3];
    for round in 0..1_000 {
        for (phase, node) in &order {
            let now = f64::from(round) + phase;
            if now < began {
                continue;
            }
            for _ in 0..FANOUT {
                let other = (node + 1 + dice.below(nodes as u64 - 1) as usize) % nodes;
                // SYN, SYN-ACK and ACK: the peer's news arrive with the second, this node's news
                // leave with the third.
                let arrives = [(); 3].map(|()| !dice.chance(loss));
                let there = arrives[0] && arrives[1];
                if there && knows[other] && !knows[*node] {
                    knows[*node] = true;
                    known += 1;
                } else if there && arrives[2] && knows[*node] && !knows[other] {
                    knows[other] = true;
                    known += 1;
                }
            }
            for (time, mark) in times.iter_mut().zip(marks) {
                if time.is_nan() && known >= mark {
                    *time = (now - began) / ROUNDS;
                }
            }
        }
        if known == nodes {
            break;
        }
    }
    times
}

fn mean_spread(nodes: usize, loss: f64, trials: u64, seed: u64) -> [f64; 3] {
    let all = (0..trials).map(|trial| spread(nodes, loss, seed ^ (trial << 32 | nodes as u64)));
    all.fold([0.0; 3], |sum, times| [0, 1, 2].map(|at| sum[at] + times[at] / trials as f64))
}

/// Returns the share of lost datagrams for a share of lost packets.
fn datagram_loss(bytes: usize, packets: f64) -> f64 {
    1.0 - (1.0 - packets).powi(bytes.div_ceil(PACKET) as i32)
}

/// Returns the percentage of copies known through hints, for this number of copies per slot of the
/// table.
fn known_by_hints(filled: f64) -> Result<f64, Failed> {
    let mut hints = Hints::new(1 << 16);
    let copies = (hints.capacity() as f64 * filled) as u64;
    let members: Vec<MemberId> = (0..64)
        .map(|node| name(node).parse().map_err(|_| Failed::from("no name of a node")))
        .collect::<Result<_, _>>()?;
    let key = |copy: u64| KeyHash::from_bits(SplitMix::of(1, copy).number());
    let member = |copy: u64| &members[(copy % 64) as usize];
    (0..copies).for_each(|copy| hints.note(key(copy), member(copy)));
    let known = |copy: &u64| hints.holders(key(*copy)).any(|holder| holder == member(*copy));
    let known = (0..copies).filter(known).count();
    Ok(100.0 * known as f64 / copies.max(1) as f64)
}

/// The results for one fleet size: its cost, and the times without loss, with 0.1% of the packets
/// lost in either format, and with 1% lost.
struct Size {
    nodes: usize,
    cost: Cost,
    times: [[f64; 3]; 4],
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let trials = context.size(1, 5, 20);
    let seed = context.seed();
    let variants = SIZES.iter().rev().map(|nodes| (format!("{nodes} nodes"), *nodes));
    let mut sizes = context.variants(variants, |_, nodes| {
        let cost = cost(nodes, seed)?;
        let lost = |format: usize| datagram_loss(cost.digest[format], 0.001);
        let times = [0.0, lost(0), lost(1), datagram_loss(cost.digest[0], 0.01)]
            .map(|loss| mean_spread(nodes, loss, trials, seed));
        Ok(Size { nodes, cost, times })
    })?;
    sizes.reverse();
    let largest = sizes.last().ok_or("no size of fleet")?;
    let mut outcome = Outcome::new(why(largest));
    for size in &sizes {
        outcome = outcome.table(table(size));
    }
    let sent = plot("sent", "Gossip that a node sends", Axis::log("KB/s"))
        .ours("as it is", points(&sizes, |size| size.cost.sent[0] / 1e3))
        .ours("compressed", points(&sizes, |size| size.cost.sent[1] / 1e3));
    let known = plot("known", "Until all know of a change", Axis::linear("s"))
        .ours("nothing is lost", points(&sizes, |size| size.times[0][2]))
        .ours("1% of packets are lost", points(&sizes, |size| size.times[3][2]));
    Ok(outcome.table(fits()).table(hints()?).plot(sent).plot(known))
}

fn plot(id: &str, title: &str, y: Axis) -> Plot {
    Plot::lines(id, title, Axis::log("nodes"), y)
}

fn points(sizes: &[Size], of: fn(&Size) -> f64) -> Vec<(f64, f64)> {
    sizes.iter().map(|size| (size.nodes as f64, of(size))).collect()
}

fn table(size: &Size) -> Table {
    let Size { nodes, cost, times } = size;
    let mut table = Table::new(&format!("nodes-{nodes}"), &format!("{nodes} nodes"));
    let mut row = |what: &str, unit: &str, number: f64| {
        table.row(what, unit, Stated::Nothing, number);
    };
    row("a digest", "bytes", cost.digest[0] as f64);
    row("a digest, compressed", "bytes", cost.digest[1] as f64);
    row("sent by a node", "KB/s", cost.sent[0] / 1e3);
    row("sent by a node, compressed", "KB/s", cost.sent[1] / 1e3);
    row("half know", "s", times[0][0]);
    row("99% know", "s", times[0][1]);
    row("all know", "s", times[0][2]);
    row("all know, 0.1% of packets lost", "s", times[1][2]);
    row("all know, 0.1% of packets lost, compressed", "s", times[2][2]);
    row("all know, 1% of packets lost", "s", times[3][2]);
    table
}

fn fits() -> Table {
    let mut table = Table::new("fits", "Most nodes whose digest fits into a datagram");
    let v4 = [8, 16, 22, 64].map(|length| (format!("names of {length} bytes"), length, 7));
    let v6 = [8, 22].map(|length| (format!("names of {length} bytes, IPv6"), length, 19));
    for (what, length, address) in v4.into_iter().chain(v6) {
        let entry = 2 + length + 8 + address + 24;
        table.row(what, "", Stated::Nothing, ((DATAGRAM - HEAD - NAME - 2) / entry) as f64);
    }
    table
}

fn hints() -> Result<Table, Failed> {
    let mut table = Table::new("hints", "Copies that hints know, by how full the table is");
    for filled in [0.25, 0.5, 0.75, 1.0, 1.5] {
        let what = format!("{filled} copies for a place");
        table.row(what, "%", Stated::Nothing, known_by_hints(filled)?);
    }
    Ok(table)
}

fn why(largest: &Size) -> String {
    let Size { nodes, cost, times } = largest;
    format!(
        "A digest names every node, so that gossip grows with the fleet: at {nodes} nodes it has \
         {:.0} KB, in {} packets, and a node sends {:.0} KB/s ({:.0} if digests are compressed, by \
         the second format). A change is known to half of the nodes after {:.1} s and to all after \
         {:.1} s. A lost packet loses its datagram: with 1% of the packets {:.0}% of the datagrams \
         are lost, and all know after {:.1} s. A fleet has at most 1,024 members; with names of 23 \
         bytes or more the digest of as many would not fit into a datagram. A hint takes four \
         bytes, and a table should have two places for each copy that it is to know.",
        cost.digest[0] as f64 / 1e3,
        cost.digest[0].div_ceil(PACKET),
        cost.sent[0] / 1e3,
        cost.sent[1] / 1e3,
        times[0][0],
        times[0][2],
        100.0 * datagram_loss(cost.digest[0], 0.01),
        times[3][2],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_the_bytes_of_its_format() {
        // Two bytes for the number of nodes; 41 and the name for each.
        assert_eq!(digest(10, 1).len(), 2 + 10 * (41 + "node-0".len()));
        // 34 bytes and the name, and 24 for the value with its key.
        assert_eq!(delta(10).len(), 10 * (34 + "node-0".len() + 24));
    }

    #[test]
    fn a_change_is_known_to_all_in_the_end_and_later_when_datagrams_are_lost() {
        let quiet = mean_spread(200, 0.0, 20, 1);
        let lossy = mean_spread(200, 0.4, 20, 1);
        assert!(quiet[0] < quiet[1] && quiet[1] <= quiet[2] && quiet[2] < 3.0, "{quiet:?}");
        assert!(lossy[2] > quiet[2], "{lossy:?}");
    }
}
