//! Names by DNS: a scripted name server on loopback, the proxy's own resolver, and requests that
//! follow its results.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA};
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use testkit::origin::{Origin, Then, ok};
use tokio::runtime::Builder;
use upstream::names::resolver::DnsLookup;
use upstream::servers::group::Group;
use upstream::settings::endpoint::Endpoint as To;
use upstream::settings::limits::UpstreamLimits;
use upstream::settings::lookup::{FoundAddresses, Lookup as _};

use crate::rig::{Rig, wait_until};

/// Behaviour of a name server.
#[derive(Clone, Debug)]
enum Say {
    /// Responds with these addresses, each with a lifetime in seconds.
    Addresses(Vec<(IpAddr, u32)>),
    /// Responds that the name does not exist.
    Nothing,
    /// Reports a failure.
    Failure,
    /// Does not respond.
    Silence,
    /// Responds to a different question.
    AnotherName,
}

/// A name server that gives the same response for every name.
struct NameServer {
    address: SocketAddr,
    say: Arc<Mutex<Say>>,
    asked: Arc<AtomicUsize>,
}

impl NameServer {
    fn start(say: Say) -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (say, asked) = (Arc::new(Mutex::new(say)), Arc::<AtomicUsize>::default());
        let server = NameServer { address, say: say.clone(), asked: asked.clone() };
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let query = Message::from_vec(&buffer[..length]).unwrap();
                asked.fetch_add(1, SeqCst);
                let say = say.lock().unwrap().clone();
                if let Some(answer) = answer(&query, &say) {
                    socket.send_to(&answer.to_vec().unwrap(), from).unwrap();
                }
            }
        });
        server
    }

    fn say(&self, say: Say) {
        *self.say.lock().unwrap() = say;
    }

    fn lookup(&self) -> DnsLookup {
        DnsLookup::new(&[self.address]).unwrap()
    }
}

fn answer(query: &Message, say: &Say) -> Option<Message> {
    let question = query.queries[0].clone();
    let mut answer = Message::response(query.metadata.id, query.metadata.op_code);
    answer.metadata.recursion_desired = true;
    answer.metadata.recursion_available = true;
    let mut name = question.name().clone();
    let kind = question.query_type();
    answer.add_query(question);
    let addresses = match say {
        Say::Silence => return None,
        Say::Failure => {
            answer.metadata.response_code = ResponseCode::ServFail;
            return Some(answer);
        }
        Say::Nothing => {
            answer.metadata.response_code = ResponseCode::NXDomain;
            return Some(answer);
        }
        Say::AnotherName => {
            name = "other.example.".parse().unwrap();
            vec![(IpAddr::from([192, 0, 2, 66]), 60)]
        }
        Say::Addresses(addresses) => addresses.clone(),
    };
    for (address, ttl) in addresses {
        let data = match (address, kind) {
            (IpAddr::V4(address), RecordType::A) => RData::A(A(address)),
            (IpAddr::V6(address), RecordType::AAAA) => RData::AAAA(AAAA(address)),
            _ => continue,
        };
        answer.add_answer(Record::from_rdata(name.clone(), ttl, data));
    }
    Some(answer)
}

fn v4(last: u8, ttl: u32) -> (IpAddr, u32) {
    (IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), ttl)
}

fn look(lookup: &DnsLookup, name: &str) -> std::io::Result<FoundAddresses> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(lookup.lookup(name))
}

#[test]
fn addresses_have_the_shortest_of_their_lifetimes() {
    let six: IpAddr = "::1".parse().unwrap();
    let server = NameServer::start(Say::Addresses(vec![v4(1, 300), v4(2, 20), (six, 40)]));
    let found = look(&server.lookup(), "a.example.").unwrap();
    let ttl = found.ttl.unwrap();
    assert!(ttl <= Duration::from_secs(20) && ttl > Duration::from_secs(5), "{ttl:?}");
    let mut addresses = found.addresses;
    addresses.sort();
    assert_eq!(addresses, [v4(1, 0).0, v4(2, 0).0, six]);
}

#[test]
fn a_missing_name_differs_from_a_failing_server() {
    let kind = |say| {
        let server = NameServer::start(say);
        look(&server.lookup(), "a.example.").unwrap_err().kind()
    };
    assert_eq!(kind(Say::Nothing), std::io::ErrorKind::NotFound);
    assert_eq!(kind(Say::Addresses(Vec::new())), std::io::ErrorKind::NotFound);
    assert_ne!(kind(Say::Failure), std::io::ErrorKind::NotFound);
}

/// Records for another name are not accepted.
#[test]
fn an_answer_to_another_question_is_ignored() {
    let server = NameServer::start(Say::AnotherName);
    match look(&server.lookup(), "a.example.") {
        Ok(found) => assert_eq!(found.addresses, [] as [IpAddr; 0]),
        Err(_) => assert!(server.asked.load(SeqCst) > 0),
    }
}

#[test]
fn localhost_needs_no_name_server() {
    let server = NameServer::start(Say::Addresses(vec![(IpAddr::from([192, 0, 2, 1]), 60)]));
    let found = look(&server.lookup(), "localhost").unwrap();
    assert!(found.addresses.iter().all(IpAddr::is_loopback), "{found:?}");
}

/// Serves on the same port of another address of this machine.
fn second(port: u16) -> TcpListener {
    let listener = TcpListener::bind(("127.0.0.3", port)).unwrap();
    let ours = listener.try_clone().unwrap();
    thread::spawn(move || {
        for mut stream in ours.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(ok("Cache-Control: no-store\r\n", "second").as_bytes());
        }
    });
    listener
}

#[test]
fn requests_follow_a_name_after_its_lifetime_and_keep_it_on_failure() {
    let first = Origin::scripted(|_, stream| {
        let _ = stream.write_all(ok("Cache-Control: no-store\r\n", "first").as_bytes());
        Then::Close
    });
    let port = first.address().port();
    let _second = second(port);
    let server = NameServer::start(Say::Addresses(vec![v4(1, 0)]));
    let lookup = Arc::new(server.lookup());
    let group = Group::one(To::plain("moving.example", port));
    let rig = Rig::reverse_to(group, |options| {
        let dns_ttl_min = Duration::from_millis(20);
        let limits = options.upstream.clone();
        options.upstream = UpstreamLimits { lookup, dns_ttl_min, ..limits };
    });
    let text = || {
        let mut client = rig.client();
        client.send("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n");
        let answer = client.answer();
        if answer.status == 200 { answer.text() } else { answer.detail() }
    };
    assert_eq!(text(), "first");
    server.say(Say::Addresses(vec![v4(3, 0)]));
    wait_until("the name is followed", || text() == "second");
    // Each worker has looked the name up before the server stops knowing it.
    (0..40).for_each(|_| drop(text()));
    for silent in [Say::Failure, Say::Silence] {
        let before = server.asked.load(SeqCst);
        server.say(silent);
        wait_until("it is asked", || {
            // Each worker keeps its last result.
            let answer = text();
            assert!(["first", "second"].contains(&answer.as_str()), "{answer}");
            server.asked.load(SeqCst) > before
        });
        let answer = text();
        assert!(["first", "second"].contains(&answer.as_str()), "{answer}");
    }
    server.say(Say::Addresses(vec![v4(1, 0)]));
    wait_until("it is followed again", || text() == "first");
    server.say(Say::Nothing);
    wait_until("the name is gone", || text() == "ERROR(dns)");
}
