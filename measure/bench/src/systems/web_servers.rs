//! The systems as web servers over a tree of files.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use testkit::address;

use super::setup::{Files, Kind, WebRoot};

/// Module directories of Apache httpd, of Debian and other distributions.
const MODULES: [&str; 3] =
    ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules"];

impl Files<'_> {
    /// Returns the command that serves a directory.
    ///
    /// # Errors
    /// Fails if a file cannot be written, or the system is no web server.
    pub(super) fn web_server(&self, root: &WebRoot) -> Result<Command, String> {
        let common = || vec![("root", root.path.display().to_string())];
        match self.system.kind {
            Kind::Larder => self.larder_of_files(root),
            Kind::Nginx | Kind::NginxWithoutThreads => {
                let aio = if self.system.kind == Kind::Nginx { "threads" } else { "off" };
                let mut values = common();
                values.push(("aio", aio.to_owned()));
                values.push(("open_files", root.open_files.to_string()));
                values.push(("most_files", (root.open_files + 10_000).to_string()));
                let text = include_str!("nginx_files.conf");
                let path = self.write("nginx.conf", text, &values)?;
                let mut command = self.confined();
                command.arg("-c").arg(path).arg("-p").arg(self.directory);
                Ok(command)
            }
            Kind::Apache => {
                let modules = MODULES.iter().find(|place| Path::new(place).exists());
                let modules =
                    modules.ok_or("the modules of Apache httpd are in no place that is known")?;
                let mut values = common();
                values
                    .extend([("modules", (*modules).to_owned()), ("apache_user", apache_user()?)]);
                let path = self.write("httpd.conf", include_str!("apache.conf"), &values)?;
                let mut command = self.confined();
                command.arg("-f").arg(path).arg("-DFOREGROUND");
                // When it stops, it stops all processes of its group.
                command.process_group(0);
                Ok(command)
            }
            Kind::Caddy => {
                let path = self.write("Caddyfile", include_str!("caddy.conf"), &common())?;
                let mut command = self.confined();
                // One core, like the one worker of the others; threads that wait for the disk do
                // not count for Go. At most a quarter of the memory is its own, so that its garbage
                // does not take what the kernel needs to cache files.
                let own = ((self.setup.memory / 4) >> 20).max(16);
                command.env("GOMAXPROCS", "1").env("GOMEMLIMIT", format!("{own}MiB"));
                command.env("XDG_DATA_HOME", self.directory);
                command.env("XDG_CONFIG_HOME", self.directory);
                command.args(["run", "--adapter", "caddyfile", "--config"]).arg(path);
                Ok(command)
            }
            _ => Err(format!("{} is no web server", self.system.name)),
        }
    }

    fn larder_of_files(&self, root: &WebRoot) -> Result<Command, String> {
        let mut command = self.confined();
        command.args(["serve", "--admin", &address::free().to_string()]);
        if !self.system.sets("workers") {
            command.args(["--workers", "1"]);
        }
        command.args(["--listen", &self.setup.listen.to_string(), "--static"]).arg(root.path);
        command.arg("--cache").arg(self.setup.cache);
        command.args(["--cache-size", &self.setup.cache_bytes.to_string()]);
        if !self.system.sets("memory") {
            command.args(["--memory", &root.larder_memory.to_string()]);
        }
        command.arg("--config").arg(self.write("larder.toml", &self.system.configuration, &[])?);
        command.args(&self.system.words);
        Ok(command)
    }
}

/// Returns the lines that name the user and group of the package: run as root, it needs a user for
/// its threads.
fn apache_user() -> Result<String, String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(String::new());
    }
    let groups = fs::read_to_string("/etc/group").map_err(|e| format!("/etc/group: {e}"))?;
    let named = |name: &str| groups.lines().any(|line| line.split(':').next() == Some(name));
    let name = ["www-data", "apache"].into_iter().find(|name| named(name));
    let name = name.ok_or("there is no user www-data or apache for Apache httpd")?;
    Ok(format!("User {name}\nGroup {name}"))
}

#[test]
fn the_configuration_of_apache_has_values_for_its_names() {
    let names = ["dir", "apache_user", "modules", "listen", "root"];
    let values = names.map(|name| (name, format!("/{name}")));
    let text = super::template::fill(include_str!("apache.conf"), &values).unwrap();
    assert!(text.contains("DocumentRoot /root\n<Directory />\n"), "{text}");
}
