//! `larder serve --demo`: an origin server, a reverse proxy in front of it and a temporary cache in
//! one process, to try Larder without a site and without a network.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use cli::outcome::Failure;
use tempfile::TempDir;

use crate::config::layers::{Layer, Problems, add_flag};

/// How long the origin server waits for a request, and how long it takes to answer one: a hit is
/// visibly faster.
const PATIENCE: Duration = Duration::from_secs(10);
const WORK: Duration = Duration::from_millis(500);

/// The running origin server, and the directory of the cache, which is removed at the end.
pub struct Demo {
    directory: TempDir,
    origin: SocketAddr,
}

impl Demo {
    /// Starts the origin server.
    pub fn start() -> Result<Demo, Failure> {
        let cannot = |error: io::Error| Failure::runtime(format!("cannot start the demo: {error}"));
        let directory = tempfile::Builder::new().prefix("larder-demo-").tempdir();
        let directory = directory.map_err(cannot)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(cannot)?;
        let origin = listener.local_addr().map_err(cannot)?;
        let serve = move || listener.incoming().flatten().for_each(respond_on_a_thread);
        thread::Builder::new().name("demo".to_owned()).spawn(serve).map_err(cannot)?;
        Ok(Demo { directory, origin })
    }

    /// Adds the settings of the demo to those flags that were given.
    pub fn add_to(&self, flags: &mut Layer) -> Result<(), Failure> {
        let cache = self.directory.path().join("larder.cache").display().to_string();
        let settings = [
            ("reverse", format!("http://{}", self.origin)),
            ("listen", "127.0.0.1:0".to_owned()),
            ("admin", "127.0.0.1:0".to_owned()),
            ("cache", cache),
            ("cache-size", "64M".to_owned()),
            ("memory", "32M".to_owned()),
        ];
        let missing = settings.into_iter().filter(|(key, _)| !flags.contains_key(key));
        for (key, text) in missing.collect::<Vec<_>>() {
            add_flag(flags, key, &[text])
                .map_err(|problem| Failure::usage(Problems { list: vec![problem] }))?;
        }
        Ok(())
    }
}

/// Returns what to try with a demo at these addresses.
pub fn lines(proxy: &str, admin: &str) -> String {
    format!(
        "\
# a miss, which takes half a second; run it again for a hit:
curl -si {proxy}/hello
# a purge; the next request is a miss:
curl -s -X POST '{admin}/purge?url={proxy}/hello'
# what Larder would do with a request, and why:
curl -s '{admin}/explain?url={proxy}/hello'
# watch it live in a browser:
{admin}/live"
    )
}

fn respond_on_a_thread(client: TcpStream) {
    let respond = move || {
        // The proxy reports a connection that breaks off.
        let _ = respond(&client);
    };
    // Without a thread the connection is closed.
    let _ = thread::Builder::new().name("demo".to_owned()).spawn(respond);
}

/// Reads one request and answers it.
fn respond(mut client: &TcpStream) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    let head: Vec<String> = BufReader::new(client)
        .lines()
        .take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
        .collect::<io::Result<_>>()?;
    let line = head.first().map(String::as_str).unwrap_or_default();
    let path = line.split(' ').nth(1).unwrap_or("/");
    thread::sleep(WORK);
    let body = format!("Hello from the origin server: {path}\n");
    let length = body.len();
    let sent = if line.starts_with("HEAD ") { "" } else { &body };
    write!(
        client,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Cache-Control: max-age=60\r\nConnection: close\r\n\r\n{sent}"
    )
}
