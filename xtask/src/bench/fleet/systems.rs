//! The systems whose nodes are measured.

use std::path::{Path, PathBuf};

/// A program, and the way in which its nodes share their caches.
#[derive(Clone)]
pub struct System {
    /// Name in the tables.
    pub name: String,
    /// Kind of program.
    pub kind: Kind,
}

/// The kinds, each with its program.
#[derive(Clone)]
pub enum Kind {
    /// Nodes of [`Larder`].
    Larder(Larder),
    /// Each node is a cache for its share, behind servers that forward requests to it.
    Nginx(PathBuf),
    /// Each node finds the owner of a document by a shard director.
    Varnish(PathBuf),
}

/// Nodes of larder.
#[derive(Clone)]
pub struct Larder {
    program: PathBuf,
    /// True if they form a fleet.
    pub fleet: bool,
    /// True if they authenticate with a key and use TLS between each other.
    pub key: bool,
    /// The table of classes to activate; `None`: the default.
    pub classes: Option<&'static str>,
}

/// All documents are kept only by their owners, in memory and on disk, as the peers do.
pub const OWNER: &str =
    "[[class]]\nname = \"rest\"\nlookup = \"owner\"\ncopies = \"discard-cache\"\n";
/// Documents from another node are kept in memory by both.
pub const INCLUSIVE: &str = "[[class]]\nname = \"rest\"\ncopies = \"inclusive\"\n";

/// Policies for copies in memory: the default, and others, each of which adds one mechanism to the
/// previous one.
pub const MECHANISMS: [(&str, &str); 5] = [
    (", copies at owners", OWNER),
    (
        ", copies at both",
        "[[class]]\nname = \"rest\"\nlookup = \"owner\"\ncopies = \"inclusive\"\n",
    ),
    (
        ", copies at both, hints",
        "[[class]]\nname = \"rest\"\nlookup = \"cooperate\"\ncopies = \"inclusive\"\n",
    ),
    (
        ", copies at who asked, hints",
        "[[class]]\nname = \"rest\"\nlookup = \"cooperate\"\ncopies = \"exclusive\"\n",
    ),
    (
        ", copies at who asked, hints, offers",
        "[[class]]\nname = \"rest\"\nlookup = \"cooperate\"\ncopies = \"exclusive\"\n\
         eviction = \"offer\"\n",
    ),
];

impl System {
    /// Returns nodes of larder that form a fleet with this table of classes.
    pub fn fleet(program: &Path, words: &str, classes: Option<&'static str>) -> System {
        let larder = Larder { program: program.to_path_buf(), fleet: true, key: false, classes };
        System { name: format!("larder, fleet{words}"), kind: Kind::Larder(larder) }
    }

    /// Returns nodes of larder that do not know each other.
    pub fn apart(program: &Path) -> System {
        let program = program.to_path_buf();
        let larder = Larder { program, fleet: false, key: false, classes: None };
        System { name: "larder, no fleet".into(), kind: Kind::Larder(larder) }
    }

    /// Returns the same system with TLS between the nodes.
    #[must_use]
    pub fn with_key(self) -> System {
        let System { name, kind } = self;
        match kind {
            Kind::Larder(larder) => {
                let kind = Kind::Larder(Larder { key: true, ..larder });
                System { name: format!("{name}, TLS"), kind }
            }
            kind => System { name, kind },
        }
    }

    /// Returns the nodes of larder, if it is that.
    pub fn larder(&self) -> Option<&Larder> {
        match &self.kind {
            Kind::Larder(larder) => Some(larder),
            Kind::Nginx(_) | Kind::Varnish(_) => None,
        }
    }

    /// Returns the program.
    pub fn program(&self) -> &Path {
        match &self.kind {
            Kind::Larder(larder) => &larder.program,
            Kind::Nginx(program) | Kind::Varnish(program) => program,
        }
    }
}

/// Returns the installed peers, and prints the missing ones.
pub fn peers() -> Vec<System> {
    let mut peers = Vec::new();
    let mut add = |name: &str, kind: fn(PathBuf) -> Kind, program: &str| {
        let program = PathBuf::from(program);
        match program.exists() {
            true => peers.push(System { name: name.into(), kind: kind(program) }),
            false => println!("SKIPPED: {name} is not installed"),
        }
    };
    add("nginx, hash", Kind::Nginx, "/usr/sbin/nginx");
    add("varnish, shard", Kind::Varnish, "/usr/sbin/varnishd");
    peers
}
