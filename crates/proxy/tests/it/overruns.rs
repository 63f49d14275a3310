//! Bytes that an origin sends after the end of a response: they are never taken for the response to
//! another request, and they end the reuse of its connections after a HEAD.

use std::io::Write;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, mpsc};

use proxy::observe::event::Event;
use testkit::client::{Client, Reply};
use testkit::origin::{Origin, Then, ok};

use crate::rig::{Rig, wait_until};

const LIE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlies";

/// Starts an origin that sends a whole extra response after some responses: for `/same` together
/// with them, for `/late` when the test says so.
fn origin(wait: Receiver<()>, sent: mpsc::Sender<()>) -> Origin {
    let (wait, sent) = (Mutex::new(wait), Mutex::new(sent));
    Origin::scripted(move |asked, stream| {
        let number = asked.on_connection;
        let mut answer = match (asked.method.as_str(), asked.path.contains("204")) {
            ("HEAD", _) => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n".to_owned(),
            (_, true) => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            _ => ok("", &format!("{number:04}")),
        };
        if asked.path.starts_with("/same") {
            answer += LIE;
        }
        let _ = stream.write_all(answer.as_bytes());
        if asked.path.starts_with("/late") {
            wait.lock().unwrap().recv().unwrap();
            let _ = stream.write_all(LIE.as_bytes());
            sent.lock().unwrap().send(()).unwrap();
        }
        Then::Stay
    })
}

fn ask(client: &mut Client, method: &str, path: &str) -> Reply {
    let text = format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n\r\n");
    client.send(text).answer_to(method)
}

#[test]
fn extra_bytes_end_their_connection_and_reuse_after_a_head() {
    for (method, path) in [
        ("HEAD", "/same"),
        ("HEAD", "/late"),
        ("GET", "/same"),
        ("GET", "/late"),
        ("GET", "/same204"),
        ("GET", "/late204"),
    ] {
        let ((go, wait), (tell, sent)) = (mpsc::channel(), mpsc::channel());
        let origin = origin(wait, tell);
        let rig = Rig::reverse_of_one_worker(origin.address());
        let mut client = rig.client();
        let mut text = |path: &str| ask(&mut client, "GET", path).text();
        // Until the first overrun, connections are reused after any response.
        assert_eq!((text("/a").as_str(), text("/b").as_str()), ("0000", "0001"));
        let is_framed = method == "GET" && !path.ends_with("204");
        if !is_framed {
            // Otherwise the bytes would be attributed to this response.
            ask(&mut rig.client(), "HEAD", "/h");
            assert_eq!(text("/c"), "0003");
        }
        ask(&mut rig.client(), method, path);
        if path.starts_with("/late") {
            go.send(()).unwrap();
            sent.recv().unwrap();
        }
        assert_eq!(text("/d"), "0000", "{method} {path}");
        assert_eq!(rig.seen.metrics.total(Event::UpstreamOverrun), 1, "{method} {path}");
        ask(&mut rig.client(), "HEAD", "/i");
        let reused = |yes: bool, text: &str| (if yes { text } else { "0000" }).to_owned();
        assert_eq!(text("/e"), "0000", "{method} {path}");
        // The same for responses of the kind that the bytes followed.
        assert_eq!(text("/f"), reused(!is_framed, "0001"), "{method} {path}");
        ask(&mut rig.client(), "GET", "/204");
        let is_reused = method == "HEAD" || is_framed;
        let number = if is_framed { "0001" } else { "0003" };
        assert_eq!(text("/g"), reused(is_reused, number), "{method} {path}");
    }
}

#[test]
fn a_body_after_a_head_response_does_not_fail_the_next_request() {
    let origin = Origin::scripted(|asked, stream| {
        // The body arrives with the next request.
        let late = if asked.on_connection > 0 { "a body" } else { "" };
        let answer = match asked.method.as_str() {
            "HEAD" => "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n".to_owned(),
            _ => format!("{late}{}", ok("", "good")),
        };
        let _ = stream.write_all(answer.as_bytes());
        Then::Stay
    });
    let rig = Rig::reverse_of_one_worker(origin.address());
    let mut client = rig.client();
    for n in 0..3 {
        ask(&mut client, "HEAD", &format!("/{n}"));
        assert_eq!(ask(&mut client, "GET", &format!("/{n}")).text(), "good");
    }
    // One overrun; afterwards the connection of a HEAD was not reused.
    assert_eq!(rig.seen.metrics.total(Event::UpstreamOverrun), 1);
    assert_eq!(origin.count(), 7);
}

#[test]
fn late_bytes_are_attributed_to_the_bodiless_response() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::scripted(move |asked, stream| {
        let text = format!("{:04}", asked.on_connection);
        let _ = match asked.path.as_str() {
            "/204" => stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n"),
            "/late" => {
                // The bytes seem to follow the 204.
                let _ = stream.write_all(LIE.as_bytes());
                wait.lock().unwrap().recv().unwrap();
                stream.write_all(ok("", &text).as_bytes())
            }
            _ => stream.write_all(ok("", &text).as_bytes()),
        };
        Then::Stay
    });
    let rig = Rig::reverse_of_one_worker(origin.address());
    let mut client = rig.client();
    ask(&mut client, "GET", "/204");
    assert_eq!(ask(&mut client, "GET", "/late").text(), "lies");
    go.send(()).unwrap();
    wait_until("the bytes are found", || {
        ask(&mut rig.client(), "GET", "/a");
        rig.seen.metrics.total(Event::UpstreamOverrun) == 1
    });
    ask(&mut client, "GET", "/204");
    assert_eq!(ask(&mut client, "GET", "/b").text(), "0000");
    assert_eq!(ask(&mut client, "GET", "/c").text(), "0001");
}
