//! Validation of gossip datagrams before `chitchat` reads them.
//!
//! `chitchat` trusts its peers: a message can make it panic (a version that decreases), overwrite a
//! node's own facts, or unpack to gigabytes. Here a message is read as strictly as members write
//! it: member names, addresses that can be sent to, keys of one letter, short values, increasing
//! versions, no deletions, no trailing bytes. A message that passes can do no harm; whether it is
//! authentic is for the seal to check.
//!
//! The format is that of `chitchat` 0.11, in which all numbers are little-endian and texts are
//! preceded by their length in 16 bits:
//!
//! ```text
//! message  magic (u16) version 0 (u8), then one of
//!          0: digest, text of the cluster      1: digest, delta      2: delta      3: nothing
//! digest   count (u16), each: node, heartbeat (u64), last collected (u64), highest version (u64)
//! node     text of the name, generation (u64), 4 or 6 (u8), 4 or 16 bytes of IP, port (u16)
//! delta    blocks, then 0 (u8); a block: 1 (zstd) or 2 (as it is) (u8), length (u16), bytes
//! unpacked operations: 0: node, last collected (u64), from version (u64)
//!          1: text of the key, text of the value, version (u64), status (u8)
//!          2: highest version (u64)
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use chitchat::ChitchatId;
use fleet::MemberId;

use crate::facts::VALUE_MAX;

const MAGIC: u16 = 45_139;

/// Maximum bytes that a block unpacks to; writers then start another one.
const BLOCK_MAX: usize = 16_384;

/// Maximum bytes that a delta unpacks to. The facts of a node take less than 1 KiB, rarely more
/// than 300 bytes.
const DELTA_MAX: usize = 1 << 20;

/// Maximum number of blocks in a delta: all but the last are full.
const BLOCKS_MAX: usize = DELTA_MAX / BLOCK_MAX + 1;

/// First bytes of a zstd frame (RFC 8878, 3.1.1).
const ZSTD: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();

/// Bound on generations, heartbeats and versions, so that counting up from there does not overflow.
const NUMBER_MAX: u64 = 1 << 62;

/// The content of a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The nodes that it names.
    pub nodes: Vec<ChitchatId>,
}

/// Validates a message to the node `own`.
///
/// # Errors
///
/// A description of what is wrong with the message.
pub fn examine(message: &[u8], own: &ChitchatId) -> Result<Content, &'static str> {
    let mut reader = Reader(message);
    let mut content = Content::default();
    if reader.u16()? != MAGIC || reader.u8()? != 0 {
        return Err("it is not a gossip message");
    }
    match reader.u8()? {
        0 => {
            digest(&mut reader, &mut content)?;
            reader.text()?;
        }
        1 => {
            digest(&mut reader, &mut content)?;
            delta(&mut reader, own)?;
        }
        2 => delta(&mut reader, own)?,
        3 => {}
        _ => return Err("its type is unknown"),
    }
    reader.end()?;
    Ok(content)
}

/// Returns the bytes that a node takes in a digest.
pub fn digest_bytes(node: &ChitchatId) -> usize {
    let ip = if node.gossip_advertise_addr.is_ipv4() { 4 } else { 16 };
    2 + node.node_id.len() + 8 + 1 + ip + 2 + 3 * 8
}

fn digest(reader: &mut Reader<'_>, content: &mut Content) -> Result<(), &'static str> {
    for _ in 0..reader.u16()? {
        content.nodes.push(reader.node()?);
        reader.number()?;
        reader.nothing_collected()?;
        reader.number()?;
    }
    Ok(())
}

/// Validates a delta. It must be about other nodes: no other node knows more of this one than
/// itself.
fn delta(reader: &mut Reader<'_>, own: &ChitchatId) -> Result<(), &'static str> {
    let unpacked = unpack(reader)?;
    let mut operations = Reader(&unpacked);
    // The last version of the node to which the operations apply.
    let mut version = None;
    while !operations.0.is_empty() {
        version = Some(match (operations.u8()?, version) {
            (0, _) => {
                if operations.node()? == *own {
                    return Err("it tells this node about itself");
                }
                operations.nothing_collected()?;
                operations.number()?;
                0
            }
            (1, Some(before)) => fact(&mut operations, before)?,
            (2, Some(0)) => operations.number()?,
            _ => return Err("its delta is out of order"),
        });
    }
    Ok(())
}

/// Validates a fact, which must be newer than the previous one; returns its version.
fn fact(operations: &mut Reader<'_>, before: u64) -> Result<u64, &'static str> {
    let (key, value) = (operations.text()?, operations.text()?);
    if key.len() != 1 || !key.as_bytes()[0].is_ascii_lowercase() || value.len() > VALUE_MAX {
        return Err("it has an invalid key or value");
    }
    let version = operations.number()?;
    if version <= before {
        return Err("its versions do not increase");
    }
    match operations.u8()? {
        0 => Ok(version),
        _ => Err("it deletes a fact"),
    }
}

fn unpack(reader: &mut Reader<'_>) -> Result<Vec<u8>, &'static str> {
    let mut unpacked = Vec::new();
    let mut buffer = vec![0; BLOCK_MAX];
    for _ in 0..=BLOCKS_MAX {
        let kind = reader.u8()?;
        if kind == 0 {
            return Ok(unpacked);
        }
        let length = reader.u16()?;
        let block = reader.take(usize::from(length))?;
        match kind {
            1 => unpacked.extend_from_slice(decompress(block, &mut buffer)?),
            2 => unpacked.extend_from_slice(block),
            _ => return Err("it has a block of an unknown kind"),
        }
        if unpacked.len() > DELTA_MAX {
            return Err("it unpacks to too many bytes");
        }
    }
    Err("it has too many blocks")
}

/// Decompresses a block, which must be a single frame and not in a legacy format of zstd.
fn decompress<'a>(block: &[u8], buffer: &'a mut [u8]) -> Result<&'a [u8], &'static str> {
    let whole = |length| zstd::zstd_safe::find_frame_compressed_size(block) == Ok(length);
    if !block.starts_with(&ZSTD) || !whole(block.len()) {
        return Err("it has a block that is not a zstd frame");
    }
    let length = zstd::bulk::decompress_to_buffer(block, buffer)
        .map_err(|_| "it has a block that cannot be unpacked")?;
    Ok(&buffer[..length])
}

/// The bytes still to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(CUT)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, &'static str> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, &'static str> {
        self.array().map(u16::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, &'static str> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<&'a str, &'static str> {
        let length = self.u16()?;
        let bytes = self.take(usize::from(length))?;
        std::str::from_utf8(bytes).map_err(|_| "it has a text that is not UTF-8")
    }

    /// Reads a generation, a heartbeat or a version.
    fn number(&mut self) -> Result<u64, &'static str> {
        Ok(self.u64()?).and_then(|number| match number < NUMBER_MAX {
            true => Ok(number),
            false => Err("it has a number that is too large"),
        })
    }

    /// Reads the highest version of facts that were deleted and forgotten; it must be 0, as no
    /// member deletes facts.
    fn nothing_collected(&mut self) -> Result<(), &'static str> {
        match self.u64()? {
            0 => Ok(()),
            _ => Err("it has deleted facts"),
        }
    }

    fn node(&mut self) -> Result<ChitchatId, &'static str> {
        let name = self.text()?;
        name.parse::<MemberId>().map_err(|_| "it has an invalid name")?;
        let generation = self.number()?;
        let ip: IpAddr = match self.u8()? {
            4 => Ipv4Addr::from(self.array::<4>()?).into(),
            6 => Ipv6Addr::from(self.array::<16>()?).into(),
            _ => return Err("it has an invalid address"),
        };
        let address = SocketAddr::new(ip, self.u16()?);
        match is_of_one(address) {
            true => Ok(ChitchatId::new(name, generation, address)),
            false => Err("it has an address that no member can have"),
        }
    }

    fn end(&self) -> Result<(), &'static str> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err("it has trailing bytes"),
        }
    }
}

const CUT: &str = "it is truncated";

/// Returns whether an address belongs to a single node and can be sent to.
pub fn is_of_one(address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    address.port() != 0 && !ip.is_unspecified() && !ip.is_multicast() && !broadcast
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> ChitchatId {
        ChitchatId::new("own", 1, ([127, 0, 0, 1], 1).into())
    }

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
    }

    fn node(name: &str, port: u16) -> Vec<u8> {
        let rest = [&5u64.to_le_bytes()[..], &[4, 127, 0, 0, 1], &port.to_le_bytes()].concat();
        [text(name), rest].concat()
    }

    fn numbers(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn begin_node(name: &str) -> Vec<u8> {
        [vec![0], node(name, 9), numbers(&[0, 0])].concat()
    }

    fn set(key: &str, value: &str, version: u64) -> Vec<u8> {
        [vec![1], text(key), text(value), numbers(&[version]), vec![0]].concat()
    }

    fn highest(version: u64) -> Vec<u8> {
        [vec![2], numbers(&[version])].concat()
    }

    fn message(kind: u8, body: &[&[u8]]) -> Vec<u8> {
        [&MAGIC.to_le_bytes()[..], &[0, kind], &body.concat()].concat()
    }

    /// Encodes the third message of an exchange, with the operations in one block.
    fn ack(operations: &[Vec<u8>]) -> Vec<u8> {
        let operations = operations.concat();
        let length = (operations.len() as u16).to_le_bytes();
        message(2, &[&[2], &length, &operations, &[0]])
    }

    fn syn(nodes: &[Vec<u8>]) -> Vec<u8> {
        let count = (nodes.len() as u16).to_le_bytes();
        message(0, &[&count, &nodes.concat(), &text("fleet")])
    }

    fn listed(name: &str, port: u16) -> Vec<u8> {
        [node(name, port), numbers(&[3, 0, 9])].concat()
    }

    #[test]
    fn messages_of_members_pass() {
        let found = examine(&syn(&[listed("a", 9), listed("own", 1)]), &own()).unwrap();
        let names: Vec<_> = found.nodes.iter().map(|node| node.node_id.to_string()).collect();
        assert_eq!(names, ["a", "own"]);
        let told = [begin_node("a"), set("s", "serving", 1), set("l", "5", 7), begin_node("b")];
        assert_eq!(examine(&ack(&told), &own()), Ok(Content::default()));
        assert!(examine(&ack(&[begin_node("a"), highest(7)]), &own()).is_ok());
        assert!(examine(&message(3, &[]), &own()).is_ok());
    }

    #[test]
    fn harmful_messages_are_rejected() {
        let long = "x".repeat(VALUE_MAX + 1);
        for (operations, why) in [
            (vec![begin_node("a"), set("s", "", 10), highest(5)], "its delta is out of order"),
            (vec![set("s", "", 1)], "its delta is out of order"),
            (
                vec![begin_node("a"), set("s", "", 2), set("l", "", 2)],
                "its versions do not increase",
            ),
            (vec![begin_node("a"), set("s", "", 0)], "its versions do not increase"),
            (vec![begin_node("a"), set("s", "", u64::MAX)], "it has a number that is too large"),
            (vec![begin_node("a"), set("s", &long, 1)], "it has an invalid key or value"),
            (vec![begin_node("a"), set("ss", "", 1)], "it has an invalid key or value"),
            (vec![begin_node("a b")], "it has an invalid name"),
        ] {
            assert_eq!(examine(&ack(&operations), &own()), Err(why));
        }
        let itself = [vec![0], text("own"), numbers(&[1]), vec![4, 127, 0, 0, 1, 1, 0]].concat();
        let itself = ack(&[[itself, numbers(&[0, 0])].concat(), set("s", "leaving", 99)]);
        assert_eq!(examine(&itself, &own()), Err("it tells this node about itself"));
        assert!(examine(&syn(&[listed("a", 0)]), &own()).is_err(), "no port");
        let collected = [node("a", 9), numbers(&[3, 1, 9])].concat();
        assert_eq!(examine(&syn(&[collected]), &own()), Err("it has deleted facts"));
    }

    #[test]
    fn a_delta_unpacks_to_little() {
        let packed = |length| zstd::bulk::compress(&vec![0; length], 0).unwrap();
        let block = |bytes: &[u8]| [&[1][..], &(bytes.len() as u16).to_le_bytes(), bytes].concat();
        let delta = |blocks: Vec<u8>| examine(&message(2, &[&blocks, &[0]]), &own());
        assert_eq!(delta(block(&packed(0))), Ok(Content::default()));
        assert_eq!(delta(block(&packed(60_000))), Err("it has a block that cannot be unpacked"));
        assert_eq!(
            delta(block(&packed(BLOCK_MAX)).repeat(1_000)),
            Err("it unpacks to too many bytes")
        );
        assert_eq!(delta(block(&packed(0)).repeat(1_000)), Err("it has too many blocks"));
        assert_eq!(delta([2, 0, 0].repeat(1_000)), Err("it has too many blocks"));
        let no_frame = Err("it has a block that is not a zstd frame");
        assert_eq!(delta(block(&packed(0).repeat(2))), no_frame);
        let mut former = packed(100);
        former[0] = 0x27;
        assert_eq!(delta(block(&former)), no_frame);
        assert_eq!(delta(block(b"")), no_frame);
    }

    #[test]
    fn addresses_of_many_are_of_no_member() {
        for wrong in ["0.0.0.0:1", "255.255.255.255:1", "224.0.0.1:1", "[ff02::1]:1", "[::]:1"] {
            assert!(!is_of_one(wrong.parse().unwrap()), "{wrong}");
        }
        assert!(!is_of_one("[::ffff:0.0.0.0]:1".parse().unwrap()));
        assert!(is_of_one("[::ffff:10.0.0.1]:1".parse().unwrap()));
    }

    #[test]
    fn no_bytes_are_too_strange_to_examine() {
        let mut random = fastrand::Rng::with_seed(crate::seed());
        let told = [begin_node("a"), set("s", "serving", 1), set("l", "5", 7), begin_node("b")];
        let good = [syn(&[listed("a", 9), listed("b", 8)]), ack(&told)];
        for _ in 0..20_000 {
            let mut bytes = random.choice(&good).unwrap().clone();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(..bytes.len());
                match random.u8(0..4) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes.truncate(at.max(1)),
                    2 => bytes.insert(at, random.u8(..)),
                    _ => bytes[at] = *random.choice(&[0, 1, 2, 255]).unwrap(),
                }
            }
            let _ = examine(&bytes, &own());
        }
    }
}
