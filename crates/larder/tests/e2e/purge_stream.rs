//! Sites that share purges through a stream of NATS JetStream: a real server, three fleets of two
//! nodes, and a client from outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use testkit::fleet_nodes::{Fleet, HOST, await_whole, fetch, purge, version, view};
use testkit::io::eventually;
use testkit::larder::{Larder, Setup, await_listener};
use testkit::origin::Origin;
use testkit::{address, skip};

/// Running server; killed on drop.
struct Server(Child);

impl Server {
    /// Starts the server with its streams in `directory`; `None` if it is not installed.
    fn start(address: SocketAddr, directory: &Path) -> Option<Server> {
        let mut command = Command::new("nats-server");
        command.args(["-js", "-a", &address.ip().to_string(), "-p", &address.port().to_string()]);
        command.arg("-sd").arg(directory).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Server(command.spawn().ok()?);
        assert!(await_listener(&mut server.0, address), "nats-server did not start");
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Client of the server that knows no more than its protocol.
struct Outside(BufReader<TcpStream>);

impl Outside {
    fn connect(to: SocketAddr) -> Outside {
        let mut client = Outside(BufReader::new(TcpStream::connect(to).unwrap()));
        client.send("CONNECT {\"verbose\":false,\"headers\":false}\r\nSUB answers 1\r\n");
        client
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Publishes messages, and returns the answer to the last.
    fn publish<'a>(
        &mut self,
        subject: &str,
        messages: impl IntoIterator<Item = &'a str>,
    ) -> String {
        let message = |text: &str| format!("PUB {subject} answers {}\r\n{text}\r\n", text.len());
        let all: Vec<String> = messages.into_iter().map(message).collect();
        self.send(&all.concat());
        all.iter().map(|_| self.answer()).last().unwrap()
    }

    fn make_stream(&mut self) {
        let stream = r#"{"name": "purges", "subjects": ["purges"], "storage": "file"}"#;
        let made = self.publish("$JS.API.STREAM.CREATE.purges", [stream]);
        assert!(made.contains("did_create"), "{made}");
    }

    fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the server is gone");
            if line.starts_with("PING") {
                self.send("PONG\r\n");
            }
            if line.starts_with("MSG") {
                let length: usize = line.split_whitespace().last().unwrap().parse().unwrap();
                let mut body = vec![0; length + 2];
                self.0.read_exact(&mut body).unwrap();
                return String::from_utf8(body).unwrap();
            }
        }
    }
}

/// Returns whether `node` has the messages of the stream up to `number`.
fn has_read(node: &Larder, number: u64) -> bool {
    let told = view(node)["purges"].as_str().unwrap_or_default().to_owned();
    let of_stream = told.split(';').find(|maker| maker.starts_with("nats.purges/"));
    of_stream.is_some_and(|maker| maker.ends_with(&format!("={number:x}")))
}

/// Waits until the metrics of `node` have this line.
fn says(node: &Larder, line: &str) -> bool {
    eventually(|| node.metrics().lines().any(|said| said == line))
}

fn settings(address: SocketAddr) -> String {
    format!("[purge]\nstream = \"nats://{address}/purges\"\nlease = \"5s\"\n")
}

fn purge_of(target: &str) -> String {
    format!("{{\"url\": \"{HOST}{target}\"}}")
}

const PAGES: [&str; 3] = ["/a?size=500&etag=1", "/b?size=500&etag=1", "/c?size=500&etag=1"];

/// Messages that a site misses.
const MISSED: u64 = 10_000;

#[test]
fn sites_share_purges_and_validate_while_the_stream_is_away() {
    let (directory, address) = (tempfile::tempdir().unwrap(), address::free());
    let Some(server) = Server::start(address, directory.path()) else {
        return skip::skipped("nats-server is not installed: no site shared a purge");
    };
    let mut outside = Outside::connect(address);
    outside.make_stream();
    let origin = Origin::start();
    let settings = settings(address);
    let fleets = [0; 3].map(|_| Fleet::of(2, &origin).each(|setup, _| setup.config(&settings)));
    let mut sites =
        fleets.each_ref().map(|fleet| Vec::from_iter(fleet.setups.iter().map(Setup::launch)));
    sites.iter().flatten().for_each(|node| await_whole(node, 2));
    let reads = |nodes: &[Larder], page: &str, expected: u64| {
        nodes.iter().for_each(|node| assert_eq!(version(node, page), expected, "{page}"));
    };
    PAGES.iter().for_each(|page| sites.iter().for_each(|nodes| reads(nodes, page, 0)));

    // A message that is no purge is passed over.
    origin.change(PAGES[0]);
    outside.publish("purges", ["no purge", &purge_of(PAGES[0])]);
    assert!(eventually(|| sites.iter().flatten().all(|node| has_read(node, 2))));
    sites.iter().for_each(|nodes| reads(nodes, PAGES[0], 1));

    // A purge at one node reaches the other sites.
    origin.change(PAGES[0]);
    let (code, said) = purge(&sites[0][0], PAGES[0]);
    assert!(code == 0 && said.contains("; and in the stream"), "{code} {said}");
    assert!(eventually(|| sites.iter().flatten().all(|node| has_read(node, 3))));
    sites.iter().for_each(|nodes| reads(nodes, PAGES[0], 2));

    // A site that was away gets what it missed, from the first to the last.
    sites[2].iter().for_each(Larder::await_written);
    sites[2].drain(..).for_each(Larder::kill);
    let (first, last) = (purge_of(PAGES[1]), purge_of(PAGES[2]));
    let between = (2..MISSED).map(|number| format!("{{\"tags\": [\"tag-{number}\"]}}"));
    let between: Vec<String> = between.collect();
    let missed = [&first].into_iter().chain(&between).chain([&last]).map(String::as_str);
    PAGES[1..].iter().for_each(|page| origin.change(page));
    outside.publish("purges", missed);

    // Meanwhile the server is killed.
    drop((server, outside));
    let server = Server::start(address, directory.path());
    let mut outside = Outside::connect(address);
    sites[2] = fleets[2].setups.iter().map(Setup::launch).collect();
    sites[2].iter().for_each(|node| await_whole(node, 2));
    assert!(eventually(|| sites.iter().flatten().all(|node| has_read(node, 3 + MISSED))));
    PAGES[1..].iter().for_each(|page| sites.iter().for_each(|nodes| reads(nodes, page, 1)));
    origin.change(PAGES[1]);
    outside.publish("purges", [purge_of(PAGES[1]).as_str()]);
    assert!(eventually(|| sites.iter().flatten().all(|node| has_read(node, 4 + MISSED))));
    sites.iter().for_each(|nodes| reads(nodes, PAGES[1], 2));

    // Without the stream a purge says so, and after a lease copies are validated.
    let node = &sites[0][0];
    assert!(says(node, "larder_purge_stream_caught_up 1"));
    drop(server);
    let (code, said) = purge(node, PAGES[0]);
    assert!(code == 3 && said.contains("; NOT IN THE STREAM: "), "{code} {said}");
    assert!(eventually(|| fetch(node, PAGES[2]).outcome() == "REVALIDATED"), "{}", node.said());
}

#[test]
fn a_single_node_notices_that_the_stream_has_lost_its_end() {
    let (directory, address) = (tempfile::tempdir().unwrap(), address::free());
    let [now, before] = ["now", "before"].map(|name| directory.path().join(name));
    let Some(server) = Server::start(address, &now) else {
        return skip::skipped("nats-server is not installed: no stream has lost its end");
    };
    let mut outside = Outside::connect(address);
    outside.make_stream();
    outside.publish("purges", [r#"{"tags": ["kept"]}"#]);
    drop((server, outside));
    assert!(Command::new("cp").arg("-r").args([&now, &before]).status().unwrap().success());

    let origin = Origin::start();
    let setup = Setup::reverse(origin.url("").trim_end_matches('/')).config(&settings(address));
    let server = Server::start(address, &now);
    Outside::connect(address).publish("purges", [r#"{"tags": ["lost"]}"#]);
    let node = setup.start();
    assert!(says(&node, "larder_purge_stream_messages_total{result=\"purged\"} 2"));
    assert_eq!(version(&node, PAGES[0]), 0);
    node.await_written();
    node.kill();

    // Another message takes the place of the last one that the node has.
    drop(server);
    let _server = Server::start(address, &before);
    Outside::connect(address).publish("purges", [purge_of(PAGES[0]).as_str()]);
    let node = setup.start();
    assert!(says(&node, "larder_purge_stream_caught_up 1"));
    assert_eq!(fetch(&node, PAGES[0]).outcome(), "REVALIDATED", "{}", node.said());
    assert!(fetch(&node, PAGES[0]).outcome().starts_with("HIT"));
}
