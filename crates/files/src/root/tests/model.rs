//! Tests random paths over random trees against a small model: a map from paths to nodes, in which
//! the decoded path is looked up.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::*;
use crate::options::Symlinks;

/// Names that are related to each other.
const NAMES: [&[u8]; 12] = [
    b"a",
    b"b",
    b"c",
    b"a.html",
    b"a.html.gz",
    b"index.html",
    b"index.html.gz",
    b".h",
    b"a b",
    b"%41",
    b"+",
    b"\xff",
];

#[derive(Clone, Debug)]
enum Node {
    File,
    Directory,
    Link(Vec<u8>),
}

/// Paths below the root that pass through no links. The root is the empty path.
type Map = BTreeMap<Vec<Vec<u8>>, Node>;

#[derive(Debug, PartialEq, Eq)]
enum Real {
    File(Vec<Vec<u8>>),
    Directory(Vec<Vec<u8>>),
    Missing,
    Forbidden,
}

struct Model {
    map: Map,
    /// The root's own path, as names.
    root: Vec<Vec<u8>>,
    symlinks: Symlinks,
    listing: bool,
}

fn names(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    names.map(<[u8]>::to_vec).collect()
}

impl Model {
    /// Resolves names from the root.
    fn resolve(&self, path: &[Vec<u8>]) -> Real {
        let mut real: Vec<Vec<u8>> = Vec::new();
        let mut ahead: Vec<Vec<u8>> = path.iter().rev().cloned().collect();
        let mut links = 0;
        while let Some(name) = ahead.pop() {
            if !matches!(self.map[&real], Node::Directory) {
                return Real::Missing;
            }
            if name == b".." {
                if real.pop().is_none() {
                    return Real::Forbidden;
                }
                continue;
            }
            let mut next = real.clone();
            next.push(name);
            match self.map.get(&next) {
                None => return Real::Missing,
                Some(Node::Link(target)) => {
                    links += 1;
                    if self.symlinks == Symlinks::Never || links > 40 {
                        return Real::Forbidden;
                    }
                    let mut target_names = names(target);
                    if target.starts_with(b"/") {
                        if !target_names.starts_with(&self.root) {
                            return Real::Forbidden;
                        }
                        target_names.drain(..self.root.len());
                        real.clear();
                    }
                    ahead.extend(target_names.into_iter().rev());
                }
                Some(_) => real = next,
            }
        }
        match self.map[&real] {
            Node::Directory => Real::Directory(real),
            _ => Real::File(real),
        }
    }

    /// Returns the outcome of a path in the format of [`told`].
    fn answer(&self, decoded: &[u8], gzip: bool) -> String {
        let path = names(decoded);
        if path.iter().any(|name| name.starts_with(b".")) {
            return "404".to_owned();
        }
        let is_directory = decoded.ends_with(b"/");
        match self.resolve(&path) {
            Real::Forbidden => "403".to_owned(),
            Real::Missing => "404".to_owned(),
            Real::File(_) if is_directory => "404".to_owned(),
            Real::File(real) => self.file(&path, real, gzip),
            Real::Directory(_) if !is_directory => {
                let url: String = path.iter().map(|name| format!("/{}", encoded(name))).collect();
                format!("-> {url}/")
            }
            Real::Directory(_) => {
                let index = [path, vec![b"index.html".to_vec()]].concat();
                match self.resolve(&index) {
                    Real::File(real) => self.file(&index, real, gzip),
                    Real::Forbidden => "403".to_owned(),
                    _ if self.listing => "(listing)".to_owned(),
                    _ => "403".to_owned(),
                }
            }
        }
    }

    fn file(&self, path: &[Vec<u8>], real: Vec<Vec<u8>>, gzip: bool) -> String {
        let mut sibling = path.to_vec();
        if let Some(last) = sibling.last_mut() {
            last.extend_from_slice(b".gz");
        }
        match self.resolve(&sibling) {
            Real::File(real) if gzip => format!("gzip {}", real.join(&b'/').escape_ascii()),
            _ => real.join(&b'/').escape_ascii().to_string(),
        }
    }
}

/// Encodes everything but letters, digits and those characters of the names that may stay
/// unencoded.
fn encoded(name: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".+".contains(&byte);
    let one = |&byte: &u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    name.iter().map(one).collect()
}

/// Creates a random tree on disk and as a map.
fn grow(rng: &mut Rng, tree: &Tree) -> Map {
    let mut map = Map::from([(Vec::new(), Node::Directory)]);
    for _ in 0..40 {
        let directories: Vec<_> = map
            .iter()
            .filter(|(path, node)| matches!(node, Node::Directory) && path.len() < 4)
            .map(|(path, _)| path.clone())
            .collect();
        let mut path = directories[rng.usize(..directories.len())].clone();
        path.push(NAMES[rng.usize(..NAMES.len())].to_vec());
        if map.contains_key(&path) {
            continue;
        }
        let joined = path.join(&b'/');
        let node = match rng.u8(..10) {
            0..5 => {
                tree.write(&joined, &joined);
                Node::File
            }
            5..8 => {
                fs::create_dir(tree.at(&joined)).unwrap();
                Node::Directory
            }
            _ => {
                let target = target(rng, tree);
                let to = std::ffi::OsStr::from_bytes(&target);
                symlink(to, tree.at(&joined)).unwrap();
                Node::Link(target)
            }
        };
        map.insert(path, node);
    }
    map
}

/// Returns a random link target: up, down, and sometimes absolute.
fn target(rng: &mut Rng, tree: &Tree) -> Vec<u8> {
    let steps: Vec<&[u8]> = (0..rng.usize(1..4))
        .map(|_| if rng.u8(..3) == 0 { b"..".as_slice() } else { NAMES[rng.usize(..NAMES.len())] })
        .collect();
    let relative = steps.join(&b'/');
    match rng.u8(..4) {
        0 => {
            [tree.at(b"").canonicalize().unwrap().as_os_str().as_bytes(), b"/", &relative].concat()
        }
        1 => tree.outside().join("secret").into_os_string().into_encoded_bytes(),
        _ => relative,
    }
}

/// Creates a path, usually of an existing node.
fn pick(rng: &mut Rng, map: &Map) -> Vec<u8> {
    let mut path = map.keys().nth(rng.usize(..map.len())).unwrap().clone();
    for _ in 0..rng.usize(..3) {
        path.push(NAMES[rng.usize(..NAMES.len())].to_vec());
    }
    let end: &[u8] = if rng.bool() { b"/" } else { b"" };
    [b"/", path.join(&b'/').as_slice(), end].concat()
}

/// Spells a path in one of the many ways with the same meaning.
fn spell(rng: &mut Rng, decoded: &[u8]) -> Vec<u8> {
    let mut spelled = Vec::new();
    for &byte in decoded {
        match byte {
            b'/' => spelled.extend_from_slice(&b"///"[..rng.usize(1..=3)]),
            b'%' => spelled.extend_from_slice(b"%25"),
            byte if rng.u8(..4) == 0 => {
                spelled.extend_from_slice(format!("%{byte:02x}").as_bytes())
            }
            byte => spelled.push(byte),
        }
    }
    spelled
}

#[test]
fn random_paths_are_answered_as_by_the_model() {
    let mut rng = Rng::with_seed(seed());
    for _ in 0..30 {
        let tree = Tree::new();
        let map = grow(&mut rng, &tree);
        let symlinks = if rng.bool() { Symlinks::Inside } else { Symlinks::Never };
        let listing = rng.bool();
        let root = names(tree.at(b"").canonicalize().unwrap().as_os_str().as_bytes());
        let model = Model { map, root, symlinks, listing };
        let precompressed = vec![Coding::Gzip];
        let roots = tree.roots(&Options { symlinks, listing, precompressed, ..Options::default() });
        for _ in 0..200 {
            let decoded = pick(&mut rng, &model.map);
            let spelled = spell(&mut rng, &decoded);
            let gzip = rng.bool();
            let accepted = if gzip { Accepted::new([Coding::Gzip]) } else { Accepted::NONE };
            let expected = model.answer(&decoded, gzip);
            let request = Request { path: &spelled, accepted };
            let mut others = Vec::new();
            for root in &roots {
                let found = root.find(&request).unwrap();
                others.push((found.directories, found.watchable));
                let got = told(found.outcome);
                let path = spelled.escape_ascii();
                assert_eq!(got, expected, "{path} {:?} {:#?}", root.resolver.method, model.map);
            }
            assert_eq!(others[0], others[1], "{}", spelled.escape_ascii());
        }
    }
}

#[test]
fn no_bytes_lead_outside_or_panic() {
    let mut rng = Rng::with_seed(seed());
    let tree = Tree::with(&["a", "d/a"]);
    tree.link("out", tree.outside());
    let roots = tree.roots(&Options::default());
    let pieces: [&[u8]; 16] = [
        b"/",
        b"..",
        b".",
        b"%2e",
        b"%2E%2e",
        b"%2f",
        b"%5c",
        b"\\",
        b"%00",
        b"%",
        b"a",
        b"d",
        b"out",
        b"secret",
        b"outside",
        b"\xc0\xaf",
    ];
    for _ in 0..5_000 {
        let path: Vec<&[u8]> = (0..rng.usize(..8)).map(|_| pieces[rng.usize(..16)]).collect();
        let path = [b"/", path.concat().as_slice()].concat();
        let answers: Vec<String> =
            roots.iter().map(|root| told(root.find(&request(&path)).unwrap().outcome)).collect();
        assert_eq!(answers[0], answers[1], "{}", path.escape_ascii());
        let allowed = ["a", "d/a", "403", "404", "400", "-> /d/"];
        assert!(allowed.contains(&answers[0].as_str()), "{}: {answers:?}", path.escape_ascii());
    }
}
