//! A network that a run can break: each node has a network namespace of its own with one TUN
//! interface, and this process passes packets between the interfaces.
//!
//! Passing packets here needs neither `netem` nor netfilter, which not every kernel has.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use testkit::random::Random;

/// The most nodes of a network.
pub const NODES: usize = 5;
/// Place of the clients and of admin requests.
pub const CLIENTS: usize = 0;
/// Place of the origin.
pub const ORIGIN: usize = NODES + 1;

const PLACES: usize = NODES + 2;
const UDP: u8 = 17;
const TCP: u8 = 6;

/// Treatment of packets in one direction between two places.
#[derive(Clone, Copy)]
pub struct Link {
    /// Share of packets that are lost, in percent.
    pub loss_percent: u64,
    pub delay: Duration,
    pub passes_udp: bool,
    pub passes_tcp: bool,
}

impl Link {
    const OPEN: Link =
        Link { loss_percent: 0, delay: Duration::ZERO, passes_udp: true, passes_tcp: true };
    pub const CUT: Link = Link { loss_percent: 100, ..Link::OPEN };

    fn passes(&self, packet: &[u8], random: &mut Random) -> bool {
        let is_open = match packet[9] {
            UDP => self.passes_udp,
            TCP => self.passes_tcp,
            _ => true,
        };
        is_open && (self.loss_percent == 0 || random.below(100) >= self.loss_percent)
    }
}

type Links = Arc<Mutex<[[Link; PLACES]; PLACES]>>;

/// The namespaces and links of one run.
pub struct Network {
    spaces: Vec<Space>,
    links: Links,
}

/// A network namespace, which lives as long as its process.
struct Space(Child);

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Network {
    /// Creates the namespaces of `nodes` nodes, and an interface for clients and origin in the
    /// namespace of this process.
    ///
    /// # Errors
    /// Fails if the machine permits no namespaces or TUN interfaces.
    pub fn of(nodes: usize) -> Result<Network, String> {
        let tun = |number| open_tun(&format!("t{number}"));
        let own = tun(0)?;
        run(&["ip", "link", "set", "lo", "up"])?;
        configure(&[], "t0", &[address(CLIENTS), address(ORIGIN)])?;
        let (mut devices, mut spaces) = (vec![own], Vec::new());
        for node in 1..=nodes {
            devices.push(tun(node)?);
            let space = new_space()?;
            let (name, pid) = (format!("t{node}"), space.0.id().to_string());
            run(&["ip", "link", "set", &name, "netns", &pid])?;
            let inside = ["nsenter", "-t", &pid, "-n"];
            run(&[&inside[..], &["ip", "link", "set", "lo", "up"]].concat())?;
            configure(&inside, &name, &[address(node)])?;
            spaces.push(space);
        }
        let links = Arc::new(Mutex::new([[Link::OPEN; PLACES]; PLACES]));
        pass_packets(devices, &links);
        Ok(Network { spaces, links })
    }

    /// Returns the words that run a program in the namespace of a node.
    pub fn inside(&self, node: usize) -> String {
        format!("nsenter -t {} -n", self.spaces[node - 1].0.id())
    }

    /// Changes the links from each of `from` to each of `to`.
    pub fn set(&self, from: &[usize], to: &[usize], change: impl Fn(&mut Link)) {
        let mut links = self.links.lock().expect("no thread panics under this lock");
        for from in from {
            to.iter().filter(|to| *to != from).for_each(|to| change(&mut links[*from][*to]));
        }
    }

    /// Changes the links between two groups in both directions.
    pub fn set_both(&self, one: &[usize], other: &[usize], change: impl Fn(&mut Link)) {
        self.set(one, other, &change);
        self.set(other, one, &change);
    }

    /// Opens all links.
    pub fn heal(&self) {
        let all: Vec<usize> = (0..PLACES).collect();
        self.set(&all, &all, |link| *link = Link::OPEN);
    }
}

/// Returns the address of a place.
pub fn address(place: usize) -> IpAddr {
    Ipv4Addr::new(10, 77, 0, 10 + place as u8).into()
}

/// Returns an address with a port at a place.
pub fn at(place: usize, port: u16) -> SocketAddr {
    SocketAddr::from((address(place), port))
}

fn run(words: &[&str]) -> Result<(), String> {
    let shown = words.join(" ");
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.map_err(|error| format!("{shown}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn configure(inside: &[&str], name: &str, addresses: &[IpAddr]) -> Result<(), String> {
    for address in addresses {
        let address = format!("{address}/24");
        run(&[inside, &["ip", "addr", "add", &address, "dev", name]].concat())?;
    }
    run(&[inside, &["ip", "link", "set", name, "up"]].concat())
}

fn new_space() -> Result<Space, String> {
    let sleep = Command::new("unshare").args(["-n", "sleep", "3600"]).spawn();
    let space = Space(sleep.map_err(|error| format!("unshare -n: {error}"))?);
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let own = of("self");
    let is_apart = || of(&space.0.id().to_string()).is_some_and(|its| Some(its) != own);
    match testkit::io::eventually(is_apart) {
        true => Ok(space),
        false => Err("unshare -n made no namespace".to_owned()),
    }
}

/// Name and flags of an interface, as the kernel takes them: `struct ifreq`.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// Creates a TUN interface, whose packets the file reads and writes.
fn open_tun(name: &str) -> Result<File, String> {
    const TUNSETIFF: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<i32>(b'T', 202);
    const TUN_WITHOUT_HEADER: u16 = 0x1001;
    let fail = |error: std::io::Error| format!("a TUN interface: {error}");
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").map_err(fail)?;
    let mut request = InterfaceRequest { name: [0; 16], flags: TUN_WITHOUT_HEADER, rest: [0; 22] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads one `struct ifreq` of 40 bytes, which `InterfaceRequest` is laid out
    // as, and writes no memory.
    #[allow(unsafe_code)]
    let made = unsafe {
        type Set = rustix::ioctl::Setter<{ TUNSETIFF }, InterfaceRequest>;
        rustix::ioctl::ioctl(file.as_fd(), Set::new(request))
    };
    made.map_err(|error| fail(error.into()))?;
    Ok(file)
}

/// A packet that is delivered at a time.
type Delayed = (Instant, usize, Vec<u8>);

/// Passes packets until the process ends.
fn pass_packets(devices: Vec<File>, links: &Links) {
    let devices = Arc::new(devices);
    let (delay, delayed) = channel();
    for number in 0..devices.len() {
        let (devices, links, delay) = (devices.clone(), links.clone(), delay.clone());
        thread::spawn(move || pass_from(number, &devices, &links, &delay));
    }
    thread::spawn(move || deliver(&devices, &delayed));
}

fn pass_from(number: usize, devices: &[File], links: &Links, delay: &Sender<Delayed>) {
    let mut random = Random::of(number as u64 + 1);
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length) = (&devices[number]).read(&mut buffer) {
        let packet = &buffer[..length];
        let is_ipv4 = length >= 20 && packet[0] >> 4 == 4;
        let Some((from, to)) = is_ipv4.then(|| (place(packet[15]), place(packet[19]))) else {
            continue;
        };
        let (Some(from), Some(to)) = (from, to) else { continue };
        let link = links.lock().expect("no thread panics under this lock")[from][to];
        if !link.passes(packet, &mut random) {
            continue;
        }
        match link.delay.is_zero() {
            true => write(devices, to, packet),
            false => _ = delay.send((Instant::now() + link.delay, to, packet.to_vec())),
        }
    }
}

/// Returns the place of the address that ends with this byte.
fn place(last: u8) -> Option<usize> {
    usize::from(last).checked_sub(10).filter(|place| *place < PLACES)
}

fn write(devices: &[File], to: usize, packet: &[u8]) {
    let device = if to == ORIGIN { CLIENTS } else { to };
    // An interface that is not there or is full loses the packet.
    if let Some(mut device) = devices.get(device) {
        let _ = device.write(packet);
    }
}

/// Delivers delayed packets in the order of sending: all links have the same delay.
fn deliver(devices: &[File], delayed: &Receiver<Delayed>) {
    while let Ok((due, to, packet)) = delayed.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        write(devices, to, &packet);
    }
}
