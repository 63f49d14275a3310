//! Reloads: sites, listeners, logs and the admin token change while clients are served.

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;
use testkit::address::free;
use testkit::client::{Client, get, request};
use testkit::io::eventually;
use testkit::larder::{Larder, Setup};
use testkit::origin::Origin;

/// Sends a reload and returns its status and text.
fn reload(larder: &Larder) -> (u16, String) {
    let reply = larder.admin_send(request("POST", "/reload").body(b""));
    (reply.status, reply.text())
}

fn site(host: &str, origin: &Origin) -> String {
    format!("[[site]]\nhosts = [\"{host}\"]\nupstream = \"{}\"\n", origin.url(""))
}

/// Requests a page of a host and returns its status.
fn ask(address: SocketAddr, host: &str, path: &str) -> u16 {
    ask_on(&mut Client::connect(address), host, path)
}

fn ask_on(client: &mut Client, host: &str, path: &str) -> u16 {
    client.send(get(path).header("Host", host).bytes()).answer().status
}

#[test]
fn sites_are_added_changed_and_removed() {
    let (one, two) = (Origin::start(), Origin::start());
    let setup = Setup::forward().config(&(site("a.test", &one) + &site("b.test", &one)));
    let larder = setup.start();
    let status = |host: &str, path: &str| ask(larder.address(), host, path);
    assert_eq!((status("a.test", "/1"), status("c.test", "/1")), (200, 421));
    let text = site("a.test", &two) + &site("c.test", &two);
    fs::write(setup.path("larder.toml"), text).unwrap();
    assert_eq!(reload(&larder).0, 200);
    assert!(larder.says("site (added c.test; changed a.test; removed b.test)"));
    let statuses = ["a.test", "b.test", "c.test"].map(|host| status(host, "/2"));
    assert_eq!(statuses, [200, 421, 200]);
    assert_eq!((one.fetches("/2"), two.fetches("/2")), (0, 2));
    // A forward proxy instead, and back.
    fs::write(setup.path("larder.toml"), "").unwrap();
    assert_eq!(reload(&larder).0, 200);
    assert_eq!((larder.get(&one.url("/3")).status, status("a.test", "/3")), (200, 400));
    fs::write(setup.path("larder.toml"), site("a.test", &one)).unwrap();
    assert_eq!(reload(&larder).0, 200);
    assert_eq!(status("a.test", "/4"), 200);
    // Half a file changes nothing.
    fs::write(setup.path("larder.toml"), site("d.test", &one) + "[[site]\nhos").unwrap();
    let (refused, why) = reload(&larder);
    assert!(refused >= 400 && why.contains("larder.toml:4: this is not TOML"), "{why}");
    assert_eq!(status("a.test", "/5"), 200);
}

#[test]
fn listeners_are_opened_and_closed() {
    let origin = Origin::start();
    let (second, third) = (free(), free());
    let socket = tempfile::tempdir().unwrap();
    let socket = socket.path().join("larder.sock");
    let text = |addresses: &[String]| {
        let table = |address: &String| format!("[[listener]]\naddress = {address:?}\n");
        addresses.iter().map(table).collect::<String>() + &site("a.test", &origin)
    };
    let tcp = |address: SocketAddr| address.to_string();
    let unix = format!("unix:{}", socket.display());
    let setup = Setup::forward().config(&text(&[tcp(second)]));
    let larder = setup.start();
    let kept = larder.address();
    let mut open = Client::connect(second);
    assert_eq!(ask_on(&mut open, "a.test", "/1"), 200);
    fs::write(setup.path("larder.toml"), text(&[tcp(third), unix.clone()])).unwrap();
    larder.signal(Signal::HUP);
    assert!(larder.says("now in effect: listener"), "{}", larder.said());
    assert!(eventually(|| std::net::TcpStream::connect(second).is_err()));
    assert_eq!((ask(kept, "a.test", "/1"), ask(third, "a.test", "/1")), (200, 200));
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok());
    // An open connection goes on.
    assert_eq!(ask_on(&mut open, "a.test", "/1"), 200);
    // A port in use changes nothing.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    fs::write(setup.path("larder.toml"), text(&[tcp(second), tcp(taken)])).unwrap();
    larder.signal(Signal::HUP);
    assert!(larder.says("another process listens there"), "{}", larder.said());
    assert!(larder.says("the configuration is unchanged"));
    assert_eq!((ask(kept, "a.test", "/1"), ask(third, "a.test", "/1")), (200, 200));
    assert!(std::net::TcpStream::connect(second).is_err());
    fs::write(setup.path("larder.toml"), text(&[])).unwrap();
    larder.signal(Signal::HUP);
    assert!(eventually(|| !socket.exists()));
}

#[test]
fn the_log_and_the_token_change() {
    let origin = Origin::start();
    let setup = Setup::reverse(&origin.url("")).config("");
    let larder = setup.start();
    let with = |token: &str| {
        let request =
            request("POST", "/reload").header("Authorization", &format!("Bearer {token}"));
        larder.admin_send(request.body(b"")).status
    };
    let [first, second] = ["first.log", "second.log"].map(|name| setup.path(name));
    let text = |path: &std::path::Path, format: &str| {
        format!("admin-token = \"two\"\naccess-log = {path:?}\nlog-format = \"{format}\"\n")
    };
    larder.get("/1");
    fs::write(setup.path("larder.toml"), text(&first, "combined")).unwrap();
    assert_eq!((with("none"), with("one"), with("two")), (200, 401, 200));
    larder.get("/2");
    fs::write(setup.path("larder.toml"), text(&second, "json")).unwrap();
    assert_eq!(with("two"), 200);
    larder.get("/3");
    fs::write(setup.path("larder.toml"), text(&setup.path("none/log"), "json")).unwrap();
    assert!(with("two") >= 400);
    fs::write(setup.path("larder.toml"), "admin-token = \"two\"\n").unwrap();
    assert_eq!(with("two"), 200);
    larder.get("/4");
    let [first, second] = [first, second].map(|path| fs::read_to_string(path).unwrap());
    assert!(first.lines().count() == 1 && first.contains("/2 HTTP"), "{first}");
    assert!(second.lines().count() == 1 && second.contains("/3\""), "{second}");
}

/// Ends the clients of a test, even one that fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Requests pages of a.test until the end, most on one connection. Returns their number.
fn request_pages(larder: &Larder, client: usize, is_over: &AtomicBool) -> usize {
    let mut kept = larder.connect();
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let path = format!("/{client}/{}?size=3000", number % 50);
        let request = get(&path).header("Host", "a.test");
        let reply = match number % 10 {
            0 => larder.send(&request),
            _ => kept.send(request.bytes()).answer(),
        };
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.verify(&path);
        number += 1;
    }
    number
}

#[test]
fn fifty_reloads_under_load_disturb_no_site_that_stays() {
    let origin = Origin::start();
    let stays = site("a.test", &origin);
    let setup = Setup::forward().config(&stays);
    let larder = setup.start();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let end = End(&is_over);
        let (larder, is_over) = (&larder, &is_over);
        let clients: Vec<_> = (0..4)
            .map(|client| scope.spawn(move || request_pages(larder, client, is_over)))
            .collect();
        let other = free();
        for number in 0..50 {
            let more: String =
                (0..number % 5).map(|n| site(&format!("s{n}.test"), &origin)).collect();
            let listen = match number % 2 {
                0 => format!("[[listener]]\naddress = \"{other}\"\n"),
                _ => String::new(),
            };
            fs::write(setup.path("larder.toml"), format!("{more}{listen}{stays}")).unwrap();
            let (status, why) = reload(larder);
            assert_eq!(status, 200, "{why}");
            let added = format!("s{}.test", (number % 5).max(1) - 1);
            let expected = if number % 5 == 0 { 421 } else { 200 };
            let is_applied = || ask(larder.address(), &added, "/x") == expected;
            assert!(eventually(is_applied), "{number}");
        }
        drop(end);
        assert!(clients.into_iter().all(|client| client.join().unwrap() > 0));
    });
}

#[test]
fn lists_are_read_again_when_their_files_change() {
    let origin = Origin::start();
    let setup = Setup::reverse(&origin.url(""));
    let (list, new) = (setup.path("denied.txt"), setup.path("new.txt"));
    fs::write(&list, "/a\n").unwrap();
    let setup = setup.config("[[rule]]\npaths = ['@denied.txt']\ndeny = true\n");
    let larder = setup.start();
    let denied = |paths: &[&str]| -> Vec<String> {
        let is_denied = |path: &&&str| ask(larder.address(), "a.test", path) == 403;
        paths.iter().filter(is_denied).map(ToString::to_string).collect()
    };
    let all = ["/a", "/b", "/c", "/d"];
    assert_eq!(denied(&all), ["/a"]);
    // Nothing else of the configuration takes effect.
    fs::write(setup.path("larder.toml"), "deny = true").unwrap();
    fs::write(&list, "/b\n").unwrap();
    assert!(eventually(|| denied(&all) == ["/b"]), "{}", larder.said());
    fs::write(&new, "/c\n").unwrap();
    fs::rename(&new, &list).unwrap();
    assert!(eventually(|| denied(&all) == ["/c"]), "{}", larder.said());
    // An empty list would match everything.
    fs::write(&list, "# none\n").unwrap();
    assert!(larder.says("the file has no entries"), "{}", larder.said());
    fs::write(&list, "no path\n").unwrap();
    assert!(larder.says("expected a path that begins with"), "{}", larder.said());
    assert_eq!(denied(&all), ["/c"]);
    fs::remove_file(&list).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &list, rustix::fs::Mode::RWXU).unwrap();
    assert!(larder.says("expected a regular file"), "{}", larder.said());
    fs::remove_file(&list).unwrap();
    fs::write(&list, "/d\n").unwrap();
    assert!(eventually(|| denied(&all) == ["/d"]), "{}", larder.said());
}

#[test]
fn limits_keep_their_counters_and_users_are_read_again() {
    // The password of both users is "secret".
    const HASH: &str = "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";
    let origin = Origin::start();
    let setup = Setup::reverse(&origin.url(""));
    let users = setup.path("users");
    fs::write(&users, format!("ann:{HASH}\n")).unwrap();
    let rules = |rate: &str| {
        format!(
            "[[rule]]\nname = 'limited'\npaths = ['/limited']\nlimit-rate = '{rate}'\n\
             [[rule]]\npaths = ['/staff']\nbasic-auth = '@{}'\n",
            users.display()
        )
    };
    let setup = setup.config(&rules("1/h"));
    let larder = setup.start();
    let status = |path: &str| ask(larder.address(), "a.test", path);
    let staff = |user: &str| {
        let client = &mut Client::connect(larder.address());
        let request = get("/staff").header("Host", "a.test").header("Authorization", user);
        client.send(request.bytes()).answer().status
    };
    let (ann, bob) = ("Basic YW5uOnNlY3JldA==", "Basic Ym9iOnNlY3JldA==");
    assert_eq!([status("/limited"), status("/limited")], [200, 429]);
    assert_eq!([staff(ann), staff(bob)], [200, 401]);
    let explained = |path: &str| {
        let url = format!("http://{}/explain?url=http://a.test{path}", larder.admin());
        larder.admin_send(get(&url)).text()
    };
    assert!(explained("/limited").contains("by client 127.0.0.1 (limited)"));
    assert!(explained("/staff").contains("ask for a name and a password with 401"));
    let config = fs::read_to_string(setup.path("larder.toml")).unwrap();
    fs::write(setup.path("larder.toml"), format!("{config}[[rule]]\npaths = ['/x']\n")).unwrap();
    fs::write(&users, format!("bob:{HASH}\n")).unwrap();
    assert_eq!(reload(&larder).0, 200);
    assert_eq!(status("/limited"), 429);
    assert_eq!([staff(ann), staff(bob)], [401, 200]);
    fs::write(&users, "bob:secret\n").unwrap();
    let (refused, why) = reload(&larder);
    let is_told = why.contains("users: line 1: ") && why.contains("got crypt or plain text");
    assert!(refused >= 400 && is_told && !why.contains("secret"), "{why}");
    assert_eq!(staff(bob), 200);
    fs::write(&users, format!("bob:{HASH}\n")).unwrap();
    fs::write(setup.path("larder.toml"), config.replace("1/h", "2/h")).unwrap();
    assert_eq!(reload(&larder).0, 200);
    assert_eq!(status("/limited"), 200);
}
