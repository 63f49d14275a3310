//! The systems as nodes that share their caches.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::setup::{Files, Kind};

/// The addresses of a node.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// For clients.
    pub front: SocketAddr,
    /// For other nodes, if different.
    pub between: SocketAddr,
    /// For the admin interface.
    pub admin: SocketAddr,
}

/// A node among several.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// Number of the node, from 0.
    pub number: usize,
    /// The addresses of all nodes.
    pub all: &'a [Addresses],
    /// True if nodes of Larder form a fleet.
    pub is_fleet: bool,
    /// True if a node of a fleet owns documents.
    pub owns: bool,
    /// The fleet key of nodes of Larder, for TLS between them.
    pub key: Option<&'a Path>,
    /// Larder's setting `memory`, in bytes.
    pub larder_memory: u64,
}

impl Node<'_> {
    fn own(&self) -> &Addresses {
        &self.all[self.number]
    }
}

impl Files<'_> {
    /// Returns the command that starts a node.
    ///
    /// # Errors
    /// Fails if a file cannot be written, or the system has no nodes.
    pub(super) fn node(&self, node: &Node) -> Result<Command, String> {
        match self.system.kind {
            Kind::Larder => self.larder_node(node),
            Kind::Nginx => self.nginx_node(node),
            Kind::Varnish => self.varnish_node(node),
            _ => Err(format!("{} has no nodes that share", self.system.name)),
        }
    }

    fn larder_node(&self, node: &Node) -> Result<Command, String> {
        let own = node.own();
        let mut command = self.confined();
        command.arg("serve").arg("--cache").arg(self.setup.cache);
        command.args(["--cache-size", &self.setup.cache_bytes.to_string(), "--workers", "1"]);
        command.args(["--memory", &node.larder_memory.to_string()]);
        command.args(["--listen", &own.front.to_string(), "--admin", &own.admin.to_string()]);
        command.args(["--reverse", &format!("http://{}", self.setup.origin)]);
        if !node.is_fleet {
            return Ok(command);
        }
        command.args(["--fleet", &own.between.to_string()]);
        command.args(["--fleet-node", &format!("node-{}", node.number)]);
        if !node.owns {
            let text = "[fleet]\ncapacity = \"0\"\n";
            command.arg("--config").arg(self.write("larder.toml", text, &[])?);
        }
        if node.number > 0 {
            command.args(["--join", &node.all[0].between.to_string()]);
        }
        if let Some(key) = node.key {
            command.arg("--fleet-key").arg(key);
        }
        Ok(command)
    }

    fn nginx_node(&self, node: &Node) -> Result<Command, String> {
        let server =
            |of: &Addresses| format!("server {} max_fails=1 fail_timeout=1s; ", of.between);
        let values = [
            ("servers", node.all.iter().map(server).collect()),
            ("between", node.own().between.to_string()),
            ("number", node.number.to_string()),
        ];
        let path = self.write("nginx.conf", include_str!("nginx_node.conf"), &values)?;
        let mut command = self.confined();
        command.arg("-c").arg(path).arg("-p").arg(self.directory);
        Ok(command)
    }

    /// Returns the command that starts Varnish. The reasons for its parameters:
    ///
    /// * The cache is a mapped file: the kernel decides which of its pages are in memory, as with
    ///   nginx.
    /// * `vsl_space` is less than the default of 80 MB, because memory is measured.
    /// * `nuke_limit`: this many small documents may be evicted for a large one.
    fn varnish_node(&self, node: &Node) -> Result<Command, String> {
        let (mut backends, mut adds) = (String::new(), String::new());
        for (number, of) in node.all.iter().enumerate() {
            let (host, port) = (of.front.ip(), of.front.port());
            // Writing to a string cannot fail.
            let _ = writeln!(
                backends,
                "backend node{number} {{ .host = \"{host}\"; .port = \"{port}\"; .probe = alive; \
                 .connect_timeout = 1s; }}"
            );
            let _ = writeln!(adds, "nodes.add_backend(node{number});");
        }
        let number = node.number.to_string();
        let values = [("backends", backends), ("adds", adds), ("number", number)];
        let vcl = self.write("node.vcl", include_str!("varnish_node.vcl"), &values)?;
        let store =
            format!("file,{}/storage,{}", self.setup.cache.display(), self.setup.cache_bytes);
        let mut command = self.confined();
        command.args(["-F", "-j", "none", "-n"]).arg(self.directory.join("work"));
        command.arg("-f").arg(vcl).args(["-i", &format!("node{}", node.number)]);
        command.args(["-a", &node.own().front.to_string(), "-s", &store]);
        command.args(["-s", "Transient=malloc,16M"]);
        let parameters = [
            "vsl_space=2M",
            "http_gzip_support=off",
            "nuke_limit=1000",
            "timeout_idle=3600",
            "backend_idle_timeout=3600",
            "thread_pools=1",
            "thread_pool_min=100",
        ];
        for parameter in parameters {
            command.args(["-p", parameter]);
        }
        Ok(command)
    }
}
