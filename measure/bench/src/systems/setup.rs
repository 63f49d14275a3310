//! The systems, and how each is started with the same memory, disk and core.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;
use testkit::address;

use super::nodes::Node;
use super::running::Running;
use super::template::fill;

/// A program with a way to set it up.
#[derive(Clone, Debug)]
pub struct System {
    /// The name in tables.
    pub name: String,
    pub(super) kind: Kind,
    program: PathBuf,
    /// Additional command line arguments, for Larder only.
    pub(super) words: Vec<String>,
    /// The text of its configuration file, for Larder only.
    pub(super) configuration: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Larder,
    Nginx,
    /// A web server whose worker reads files itself.
    NginxWithoutThreads,
    Varnish,
    TrafficServer,
    Squid(&'static str),
    Apache,
    Caddy,
}

/// The purpose for which a system is set up.
#[derive(Clone, Copy, Debug)]
pub enum Role<'a> {
    /// A cache in front of the origin.
    Cache,
    /// A web server.
    WebServer(WebRoot<'a>),
    /// A node of several that share their caches.
    Node(Node<'a>),
}

/// A directory to be served.
#[derive(Clone, Copy, Debug)]
pub struct WebRoot<'a> {
    /// Path of the directory.
    pub path: &'a Path,
    /// Number of files that a server may keep open.
    pub open_files: u64,
    /// Larder's setting `memory`, in bytes.
    pub larder_memory: u64,
}

/// Where a system keeps its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// On a device without a file system.
    Device,
    /// In a directory.
    Directory,
}

/// The resources and parameters of a system.
pub struct Setup<'a> {
    /// The directory in which it gets its own directory.
    pub base: &'a Path,
    /// The purpose.
    pub role: Role<'a>,
    /// A device, or a directory that does not exist yet.
    pub cache: &'a Path,
    /// Size of the cache in bytes.
    pub cache_bytes: u64,
    /// Approximate size of an object in bytes.
    pub object_bytes: u64,
    /// Number of client connections.
    pub connections: usize,
    /// True if clients use HTTP/2, without encryption.
    pub http2: bool,
    /// True if it is configured as for real sites and not only as a cache: ten rules, a trusted
    /// proxy, an additional static site, an access log in JSON.
    pub is_site: bool,
    /// The path prefix of the requested objects.
    pub objects: String,
    /// Total bytes of memory: its own and its share of the kernel's.
    pub memory: u64,
    /// The serving address.
    pub listen: SocketAddr,
    /// The address of the origin, which already listens.
    pub origin: SocketAddr,
    /// The files of control groups to which its processes are added.
    pub groups: Vec<PathBuf>,
    /// The only core that it may use.
    pub core: usize,
}

const MIB: u64 = 1 << 20;

/// Installed systems, and the names of those that are missing.
pub type Found = (Vec<System>, Vec<&'static str>);

/// Returns the caches on this machine. `larder` is Larder's program.
pub fn installed(larder: &Path) -> Found {
    find(
        larder,
        &[
            ("Larder", Kind::Larder),
            ("nginx", Kind::Nginx),
            ("Varnish", Kind::Varnish),
            ("Traffic Server", Kind::TrafficServer),
            ("Squid ufs", Kind::Squid("ufs")),
            ("Squid diskd", Kind::Squid("diskd")),
            ("Squid aufs", Kind::Squid("aufs")),
            ("Squid rock", Kind::Squid("rock")),
        ],
    )
}

/// Returns the systems on this machine whose nodes can share their caches.
pub fn sharing(larder: &Path) -> Found {
    find(
        larder,
        &[
            ("Larder", Kind::Larder),
            ("nginx, hash", Kind::Nginx),
            ("Varnish, shard", Kind::Varnish),
        ],
    )
}

/// Returns the web servers on this machine: Larder with its defaults, with the preset of a paper,
/// and with first copies that stay in the kernel's page cache; and others.
pub fn web_servers(larder: &Path) -> Found {
    let (mut found, absent) = find(
        larder,
        &[
            ("Larder", Kind::Larder),
            ("Larder, preset tfs", Kind::Larder),
            ("Larder, page-cache-max 1G", Kind::Larder),
            ("nginx", Kind::Nginx),
            ("nginx, aio off", Kind::NginxWithoutThreads),
            ("Apache httpd", Kind::Apache),
            ("Caddy", Kind::Caddy),
        ],
    );
    for system in &mut found {
        match &*system.name {
            "Larder, preset tfs" => system.words = vec!["--preset".into(), "tfs".into()],
            "Larder, page-cache-max 1G" => {
                system.configuration = "[files]\npage-cache-max = \"1G\"\n".into();
            }
            _ => {}
        }
    }
    (found, absent)
}

fn find(larder: &Path, wanted: &[(&'static str, Kind)]) -> Found {
    let (mut there, mut absent) = (Vec::new(), Vec::new());
    for (name, kind) in wanted {
        match kind.places(larder).into_iter().find(|program| program.exists()) {
            Some(program) => there.push(System {
                name: (*name).to_owned(),
                kind: *kind,
                program,
                words: Vec::new(),
                configuration: String::new(),
            }),
            None => absent.push(*name),
        }
    }
    (there, absent)
}

impl Kind {
    /// Returns where its program may be.
    fn places(self, larder: &Path) -> Vec<PathBuf> {
        let places: &[&str] = match self {
            Kind::Larder => return vec![larder.to_path_buf()],
            Kind::Nginx | Kind::NginxWithoutThreads => {
                &["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"]
            }
            Kind::Varnish => &["/usr/sbin/varnishd", "/usr/local/sbin/varnishd"],
            Kind::TrafficServer => &["/usr/bin/traffic_server"],
            Kind::Squid(_) => &["/usr/sbin/squid"],
            Kind::Apache => &["/usr/sbin/apache2", "/usr/sbin/httpd"],
            Kind::Caddy => &["/usr/bin/caddy", "/usr/local/bin/caddy"],
        };
        places.iter().map(PathBuf::from).collect()
    }
}

impl System {
    /// Returns Larder with settings, given as `KEY=VALUE` and separated by commas; they become part
    /// of the name. A key is one of the configuration file, such as `layout` or `store.policy`.
    /// Returns `None` for other systems.
    ///
    /// # Errors
    /// Fails if one of them is not a setting, or Larder refuses it.
    pub fn with_settings(&self, settings: &str) -> Result<Option<System>, String> {
        if self.kind != Kind::Larder {
            return Ok(None);
        }
        let mut system = self.clone();
        let mut lines = String::new();
        for (key, value) in super::settings::split(settings)? {
            // The file holds the layout, too, but `format` takes it from the command line only.
            match key {
                "layout" | "preset" => system.words.extend([format!("--{key}"), value.clone()]),
                key => lines.push_str(&format!("{key} = {}\n", super::settings::literal(&value))),
            }
            system.name = format!("{}, {key} {value}", system.name);
        }
        system.configuration.insert_str(0, &lines);
        super::settings::check(&system.program, &system.configuration, &system.words)?;
        Ok(Some(system))
    }

    /// Returns whether its configuration has a value for this key.
    pub(super) fn sets(&self, key: &str) -> bool {
        let has = |line: &str| line.split_once(" = ").is_some_and(|(name, _)| name == key);
        self.configuration.lines().any(has)
    }

    /// Returns whether it is Larder.
    pub fn is_larder(&self) -> bool {
        self.kind == Kind::Larder
    }

    /// Returns where it keeps its cache.
    pub fn want(&self) -> Want {
        match self.kind {
            Kind::Larder | Kind::TrafficServer => Want::Device,
            _ => Want::Directory,
        }
    }

    /// Returns whether it supports HTTP/2 with clients without encryption.
    pub fn speaks_http2(&self) -> bool {
        !matches!(self.kind, Kind::Squid(_))
    }

    /// Returns whether it can be configured as for real sites ([`Setup::is_site`]).
    pub fn serves_sites(&self) -> bool {
        matches!(self.kind, Kind::Larder | Kind::Nginx)
    }

    /// Returns the rate in requests per second at which it must be filled, if it does not store
    /// objects that arrive faster. Squid's directories evict some 400 objects per second, and
    /// objects that arrive while they are full are not stored.
    pub fn fill_rate(&self) -> Option<f64> {
        match self.kind {
            Kind::Squid(store) if store != "rock" => Some(400.0),
            _ => None,
        }
    }

    /// Returns the ID of the user to which its processes switch when started as root.
    ///
    /// # Errors
    /// Fails if there is no such user.
    pub fn user(&self) -> Result<Option<u32>, String> {
        self.user_name().map(user_number).transpose()
    }

    fn user_name(&self) -> Option<&'static str> {
        match self.kind {
            Kind::TrafficServer => Some("trafficserver"),
            Kind::Squid(_) => Some("proxy"),
            _ => None,
        }
    }

    /// Formats an empty cache on a device, for Larder. Does nothing for other systems.
    ///
    /// # Errors
    /// Fails if Larder reports an error.
    pub fn format(&self, device: &Path, bytes: u64) -> Result<(), String> {
        if self.kind != Kind::Larder {
            return Ok(());
        }
        let mut command = Command::new(&self.program);
        command.args(["format", "--force", "--cache-size", &bytes.to_string()]);
        let output = command.args(&self.words).arg(device).output();
        let output = output.map_err(|error| format!("larder format: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("larder format: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// Starts the system on an empty cache, unless the caller has filled it.
    ///
    /// # Errors
    /// Fails if a file cannot be written, or the system does not start.
    pub fn start(&self, setup: &Setup, interrupted: &AtomicBool) -> Result<Running, String> {
        let fail = |error: std::io::Error| format!("{}: {error}", setup.base.display());
        let directory = TempDir::new_in(setup.base).map_err(fail)?;
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(directory.path(), open).map_err(fail)?;
        let has_directory =
            self.want() == Want::Directory && !matches!(setup.role, Role::WebServer(_));
        if has_directory {
            fs::create_dir_all(setup.cache).map_err(fail)?;
        }
        if let Some(user) = self.user()? {
            chown(directory.path(), Some(user), None).map_err(fail)?;
            if has_directory {
                chown(setup.cache, Some(user), None).map_err(fail)?;
            }
        }
        let files = Files { system: self, setup, directory: directory.path() };
        let command = match (&setup.role, self.kind) {
            (Role::WebServer(root), _) => files.web_server(root)?,
            (Role::Node(node), _) => files.node(node)?,
            (Role::Cache, Kind::Larder) => files.larder()?,
            (Role::Cache, Kind::Nginx) => files.nginx()?,
            (Role::Cache, Kind::Varnish) => files.varnish()?,
            (Role::Cache, Kind::TrafficServer) => files.traffic_server()?,
            (Role::Cache, Kind::Squid(store)) => files.squid(store)?,
            (Role::Cache, _) => return Err(format!("{} is no cache", self.name)),
        };
        let running = Running::launch(command, directory, setup.listen, interrupted);
        running.map_err(|why| format!("{}: {why}", self.name))
    }
}

/// Returns Larder's `--memory` for this much total memory: half of it, or less if that does not
/// leave room for its other needs: a twentieth of the setting, 64 MiB, and a fixed amount for each
/// connection with a request.
fn larders_memory(all: u64, connections: usize) -> u64 {
    const CONNECTION: u64 = 40 << 10;
    let besides = 64 * MIB + connections as u64 * CONNECTION;
    (all / 2).min(all.saturating_sub(besides) / 21 * 20).max(8 * MIB)
}

/// Returns Squid's `cache_mem` for this much total memory: half of what its process leaves, which
/// needs 60 MB and more with the index of 100,000 objects; the rest is for files.
fn squids_memory(all: u64) -> u64 {
    const PROCESS: u64 = 80 * MIB;
    (all.saturating_sub(PROCESS) / 2).max(8 * MIB)
}

/// The files of a system that is being set up.
pub(super) struct Files<'a> {
    pub(super) system: &'a System,
    pub(super) setup: &'a Setup<'a>,
    pub(super) directory: &'a Path,
}

impl Files<'_> {
    /// Returns the program, confined to its groups and its core.
    pub(super) fn confined(&self) -> Command {
        const ENTER: &str = "while [ \"$1\" != -- ]; do echo $$ > \"$1\" || exit 1; shift; done; \
                             shift; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", ENTER, "sh"]).args(&self.setup.groups).arg("--");
        command.args(["taskset", "--cpu-list", &self.setup.core.to_string()]);
        command.arg(&self.system.program);
        command
    }

    /// Writes a file to the directory, with names replaced by values.
    pub(super) fn write(
        &self,
        name: &str,
        text: &str,
        values: &[(&str, String)],
    ) -> Result<PathBuf, String> {
        let path = self.directory.join(name);
        let Setup { cache, cache_bytes, memory, origin, .. } = self.setup;
        let user = self.system.user_name().unwrap_or("root").to_owned();
        let common = [
            ("dir", self.directory.display().to_string()),
            ("cache", cache.display().to_string()),
            ("cache_mb", (cache_bytes / MIB).to_string()),
            ("memory_bytes", (memory / 3).to_string()),
            ("listen", self.setup.listen.to_string()),
            ("listen_host", self.setup.listen.ip().to_string()),
            ("listen_port", self.setup.listen.port().to_string()),
            ("origin", origin.to_string()),
            ("origin_host", origin.ip().to_string()),
            ("origin_port", origin.port().to_string()),
            ("user", user),
            ("objects", self.setup.objects.clone()),
            // One for each client, or the usual number if there are few clients.
            ("idle_to_origin", self.setup.connections.max(128).to_string()),
        ];
        let values: Vec<_> = common.into_iter().chain(values.iter().cloned()).collect();
        let text = fill(text, &values).map_err(|why| format!("{name}: {why}"))?;
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// Starts one worker; half of the memory is for the setting that covers everything but the
    /// program itself and connections.
    fn larder(&self) -> Result<Command, String> {
        let Setup { cache, cache_bytes, memory, origin, connections, .. } = self.setup;
        let mut command = self.confined();
        command.args(["serve", "--admin", &address::free().to_string()]);
        let mut text = format!(
            "{}[[listener]]\naddress = \"<listen>\"\nh2c = {}\n",
            self.system.configuration, self.setup.http2
        );
        if self.setup.is_site {
            text.push_str(include_str!("site.toml"));
            text.push_str("[[site]]\nhosts = [\"files.test\"]\nroot = \"<dir>\"\n");
            command.arg("--access-log").arg(self.directory.join("access.log"));
            command.args(["--log-format", "json"]);
        }
        command.arg("--config").arg(self.write("larder.toml", &text, &[])?);
        if !self.system.sets("workers") {
            command.args(["--workers", "1"]);
        }
        command.args(&self.system.words);
        command.args(["--reverse", &format!("http://{origin}")]);
        command.arg("--cache").arg(cache).args(["--cache-size", &cache_bytes.to_string()]);
        if !self.system.sets("memory") {
            command.args(["--memory", &larders_memory(*memory, *connections).to_string()]);
        }
        Ok(command)
    }

    fn nginx(&self) -> Result<Command, String> {
        let (http2, sendfile) = if self.setup.http2 { (" http2", "off") } else { ("", "on") };
        let mut values = vec![("http2", http2.to_owned()), ("sendfile", sendfile.to_owned())];
        let include = match self.setup.is_site {
            true => {
                let site = self.write("site.conf", include_str!("nginx_site.conf"), &values)?;
                self.write("locations.conf", include_str!("nginx_locations.conf"), &[])?;
                format!("include {};", site.display())
            }
            false => "access_log off;".to_owned(),
        };
        let locations = if self.setup.is_site { "include locations.conf;" } else { "" };
        values.extend([("site", include), ("locations", locations.to_owned())]);
        let path = self.write("nginx.conf", include_str!("nginx.conf"), &values)?;
        let mut command = self.confined();
        command.arg("-c").arg(path).arg("-p").arg(self.directory);
        Ok(command)
    }

    /// Returns the command that starts Varnish. The reasons for its parameters:
    ///
    /// * `-j none`: no change of user, because another user could not access our directory.
    /// * `thread_pools=1`: one core. `thread_pool_min`: a client needs a thread, in HTTP/2 a second
    ///   one for its stream.
    /// * `workspace_client`: with many threads, a third of the default, because otherwise they use
    ///   the memory that is for objects. With 16k, 7.1 fails as it begins a request. The backend's
    ///   workspace keeps its default: with 24k a response of 4 KB does not fit, which ends in a
    ///   503.
    /// * `vsl_space`: a log in memory, which is not read.
    fn varnish(&self) -> Result<Command, String> {
        let vcl = self.write("varnish.vcl", include_str!("varnish.vcl"), &[])?;
        let Setup { cache, cache_bytes, .. } = self.setup;
        let store = format!("file,{}/storage,{}", cache.display(), cache_bytes);
        let mut command = self.confined();
        command.args(["-F", "-j", "none", "-a", &self.setup.listen.to_string(), "-f"]).arg(vcl);
        command.arg("-n").arg(self.directory.join("work")).args(["-s", &store]);
        let threads = (self.setup.connections * (1 + usize::from(self.setup.http2)) + 68).max(100);
        command.args(["-p", "thread_pools=1", "-p", &format!("thread_pool_min={threads}")]);
        command.args(["-p", &format!("thread_pool_max={}", threads.max(5_000))]);
        if threads > 500 {
            command.args(["-p", "workspace_client=24k"]);
        }
        if self.setup.http2 {
            command.args(["-p", "feature=+http2"]);
        }
        command.args(["-p", "vsl_space=4M", "-p", "timeout_idle=3600"]);
        Ok(command)
    }

    fn traffic_server(&self) -> Result<Command, String> {
        let origin = self.setup.origin;
        self.write("runroot.yaml", include_str!("trafficserver_runroot.yaml"), &[])?;
        // The listener distinguishes the protocols by their first bytes.
        let protocols = if self.setup.http2 { ":proto=http;h2" } else { "" }.to_owned();
        let records = include_str!("trafficserver.config");
        self.write("records.config", records, &[("protocols", protocols)])?;
        self.write("remap.config", &format!("map / http://{origin}/\n"), &[])?;
        self.write("storage.config", "<cache>\n", &[])?;
        const ALLOWED: &str = "ip_allow:\n  - apply: in\n    ip_addrs: 127.0.0.0/8\n    \
                               action: allow\n    methods: ALL\n";
        self.write("ip_allow.yaml", ALLOWED, &[])?;
        let mut command = self.confined();
        command.arg(format!("--run-root={}", self.directory.display()));
        Ok(command)
    }

    /// The directories of the cache are created first. Rock reads and writes in a separate process;
    /// the other stores need none, so that there is a single process.
    fn squid(&self, store: &'static str) -> Result<Command, String> {
        let Setup { cache, cache_bytes, .. } = self.setup;
        // The size of the store and its parameters: directories, or the slots of rock.
        let mb = cache_bytes / MIB;
        let rest = match store {
            // Slots of 16 KB, of which small objects fill a quarter but which large objects need.
            "rock" if self.setup.object_bytes <= 4_096 => "max-size=1000000000 slot-size=4096",
            "rock" => "max-size=1000000000 slot-size=16384",
            _ => "16 256",
        };
        let store_line = format!("{store} {} {mb} {rest}", cache.display());
        let memory = squids_memory(self.setup.memory) / MIB;
        let values = [("store", store_line), ("objects_mb", memory.to_string())];
        let path = self.write("squid.conf", include_str!("squid.conf"), &values)?;
        let service = format!("bench{}p{}", std::process::id(), self.setup.listen.port());
        let mut make = Command::new(&self.system.program);
        make.arg("-f").arg(&path).args(["-n", &service, "-N", "-z"]);
        let made = make.output().map_err(|error| format!("squid -z: {error}"))?;
        if !made.status.success() {
            return Err(format!("squid -z: {}", String::from_utf8_lossy(&made.stderr)));
        }
        let mut command = self.confined();
        command.arg("-f").arg(path).args(["-n", &service]);
        command.arg(if store == "rock" { "--foreground" } else { "-N" });
        Ok(command)
    }
}

/// Returns the ID of a user.
fn user_number(name: &str) -> Result<u32, String> {
    let users = fs::read_to_string("/etc/passwd").map_err(|e| format!("/etc/passwd: {e}"))?;
    number_of(name, &users).ok_or_else(|| format!("there is no user {name}"))
}

fn number_of(name: &str, users: &str) -> Option<u32> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems::Addresses;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let users = "root:x:0:0:r:/r:/bin/sh\nserver2:x:7:7::/:\nserver:x:102:105::/run:\n";
        assert_eq!(number_of("server", users), Some(102));
        assert_eq!(number_of("serve", users), None);
    }

    fn system(kind: Kind) -> System {
        System {
            name: "any".into(),
            kind,
            program: "/bin/true".into(),
            words: Vec::new(),
            configuration: String::new(),
        }
    }

    #[test]
    fn settings_of_larder_are_part_of_its_name() {
        let with = |settings| system(Kind::Larder).with_settings(settings);
        let larder = with("layout=stream,workers=2,store.policy=lru").unwrap().unwrap();
        assert_eq!(larder.name, "any, layout stream, workers 2, store.policy lru");
        assert_eq!(larder.words, ["--layout", "stream"]);
        assert_eq!(larder.configuration, "workers = 2\nstore.policy = \"lru\"\n");
        assert!(larder.sets("workers") && !larder.sets("memory"));
        assert!(system(Kind::Nginx).with_settings("layout=stream").unwrap().is_none());
        let refusing = System { program: "/bin/false".into(), ..system(Kind::Larder) };
        assert!(refusing.with_settings("workers=2").is_err());
    }

    fn setup(base: &Path) -> Setup<'_> {
        Setup {
            base,
            role: Role::Cache,
            cache: Path::new("/dev/loop0"),
            cache_bytes: 512 * MIB,
            object_bytes: 11_000,
            connections: 32,
            http2: false,
            is_site: false,
            objects: "/bench-".to_owned(),
            memory: 192 * MIB,
            listen: "127.64.0.1:10000".parse().unwrap(),
            origin: "127.0.0.1:9080".parse().unwrap(),
            groups: Vec::new(),
            core: 1,
        }
    }

    #[test]
    fn every_configuration_has_values_for_its_names() {
        let directory = tempfile::tempdir().unwrap();
        let setup = setup(directory.path());
        for kind in [Kind::Nginx, Kind::Varnish, Kind::TrafficServer] {
            let system = system(kind);
            let files = Files { system: &system, setup: &setup, directory: directory.path() };
            let command = match kind {
                Kind::Nginx => files.nginx(),
                Kind::Varnish => files.varnish(),
                _ => files.traffic_server(),
            };
            let text = format!("{:?}", command.unwrap());
            assert!(text.contains("taskset") && text.contains("/bin/true"), "{text}");
        }
        let records = fs::read_to_string(directory.path().join("records.config")).unwrap();
        assert!(records.contains("10000:ip-in=127.64.0.1\n"), "{records}");
        let squid = system(Kind::Squid("aufs"));
        let files = Files { system: &squid, setup: &setup, directory: directory.path() };
        files.squid("aufs").unwrap();
        let text = fs::read_to_string(directory.path().join("squid.conf")).unwrap();
        assert!(text.contains("cache_dir aufs /dev/loop0 512 16 256\n"), "{text}");
        let many =
            Setup { connections: 1_000, http2: true, is_site: true, groups: Vec::new(), ..setup };
        let (nginx, server) = (system(Kind::Nginx), system(Kind::TrafficServer));
        let directory = directory.path();
        Files { system: &nginx, setup: &many, directory }.nginx().unwrap();
        Files { system: &server, setup: &many, directory }.traffic_server().unwrap();
        let varnish = Files { system: &nginx, setup: &many, directory }.varnish().unwrap();
        assert!(format!("{varnish:?}").contains("thread_pool_min=2068"), "{varnish:?}");
        let text = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        assert!(text("nginx.conf").contains("listen 127.64.0.1:10000 http2 backlog"));
        assert!(text("nginx.conf").contains("keepalive 1000;"));
        assert!(text("nginx.conf").contains("include locations.conf;"));
        assert!(text("locations.conf").contains("location /bench- {"));
        let larder = system(Kind::Larder);
        Files { system: &larder, setup: &many, directory }.larder().unwrap();
        assert!(text("larder.toml").contains("paths = [\"/bench-*\"]"));
        assert!(text("records.config").contains("ip-in=127.64.0.1:proto=http;h2\n"));
        assert!(!squid.speaks_http2() && nginx.speaks_http2());
    }

    #[test]
    fn web_servers_have_values_for_their_names() {
        let directory = tempfile::tempdir().unwrap();
        let (setup, directory) = (setup(directory.path()), directory.path());
        let text = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        let squid = system(Kind::Squid("aufs"));
        let root = WebRoot { path: Path::new("/tree"), open_files: 100, larder_memory: 64 * MIB };
        for kind in [Kind::Larder, Kind::Nginx, Kind::NginxWithoutThreads, Kind::Caddy] {
            let system = self::system(kind);
            Files { system: &system, setup: &setup, directory }.web_server(&root).unwrap();
        }
        assert!(
            text("nginx.conf").contains("aio off;") && text("nginx.conf").contains("root /tree;")
        );
        assert!(
            text("Caddyfile").contains("http://:10000 {\n    bind 127.64.0.1\n    root * /tree")
        );
        assert!(Files { system: &squid, setup: &setup, directory }.web_server(&root).is_err());
    }

    #[test]
    fn nodes_have_values_for_their_names() {
        let directory = tempfile::tempdir().unwrap();
        let (setup, directory) = (setup(directory.path()), directory.path());
        let text = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        let squid = system(Kind::Squid("aufs"));
        let address = |port| format!("127.64.0.1:{port}").parse().unwrap();
        let addresses = [1, 4].map(|port| Addresses {
            front: address(port),
            between: address(port + 1),
            admin: address(port + 2),
        });
        let (is_fleet, owns, key, larder_memory) = (true, true, None, 16 * MIB);
        let node = Node { number: 1, all: &addresses, is_fleet, owns, key, larder_memory };
        for kind in [Kind::Larder, Kind::Nginx, Kind::Varnish] {
            let system = self::system(kind);
            let command = Files { system: &system, setup: &setup, directory }.node(&node).unwrap();
            let joins = format!("{command:?}").contains("\"--join\" \"127.64.0.1:2\"");
            assert_eq!(joins, kind == Kind::Larder, "{command:?}");
        }
        assert!(text("nginx.conf").contains("server 127.64.0.1:5 max_fails=1"));
        assert!(text("node.vcl").contains("nodes.add_backend(node1);"));
        assert!(Files { system: &squid, setup: &setup, directory }.node(&node).is_err());
    }

    #[test]
    fn larder_has_half_of_the_memory_or_what_it_leaves_room_for() {
        assert_eq!(larders_memory(160 * MIB, 32), 80 * MIB);
        let many = larders_memory(160 * MIB, 1_000);
        assert!((50 * MIB..70 * MIB).contains(&many), "{many}");
        assert_eq!(larders_memory(32 * MIB, 1_000), 8 * MIB);
    }
}
