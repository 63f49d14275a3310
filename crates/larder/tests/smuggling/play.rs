//! Plays a case to a proxy, describes the result in a few words, and checks it against the table's
//! expectation for Larder.

use std::net::SocketAddr;
use std::time::Duration;

use crate::answers;
use crate::client::{self, Answer, Sequence};
use crate::origin::{Origin, Parsed, Plan, Seen};
use crate::requests;
use crate::strict::Request;
use crate::wire::{bytes, fill_in};

/// The result of a case.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// A short description, as on the page.
    pub words: String,
    /// The full result, if it does not match the table.
    pub complaint: Option<String>,
}

/// Plays cases to one proxy.
pub struct Player<'a> {
    proxy: SocketAddr,
    origin: &'a Origin,
    patience: Duration,
    number: usize,
}

impl<'a> Player<'a> {
    /// Returns a player; `patience` is the timeout for a response.
    pub fn new(proxy: SocketAddr, origin: &'a Origin, patience: Duration) -> Player<'a> {
        Player { proxy, origin, patience, number: 0 }
    }

    /// Returns a name for the paths of the next case.
    fn id(&mut self) -> String {
        self.number += 1;
        format!("c{}", self.number)
    }

    /// Sends a request, followed by another one.
    pub fn request(&mut self, group: &requests::Group, case: &requests::Case) -> Verdict {
        let &requests::Case(name, wire, fate) = case;
        let id = self.id();
        let next =
            format!("GET /{id}/next HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n");
        let bytes = bytes(&(fill_in(wire, &id) + &next));
        self.origin.take_seen();
        let read = client::exchange(self.proxy, &[&bytes], self.patience);
        let became = Became::of(&id, self.origin.take_seen(), client::statuses(&read), &read);
        let right = became.is(fate, &id) && became.words() == fate.words();
        let complaint = (!right).then(|| {
            let sent = String::from_utf8_lossy(&bytes);
            let read = String::from_utf8_lossy(&read);
            format!(
                "{}: {name}\n  expected {fate:?}, got {became:?}\n  sent {sent:?}\n  read {read:?}",
                group.title
            )
        });
        Verdict { words: became.words(), complaint }
    }

    /// Sends the same in two parts: the head, and a moment later the bytes after it.
    pub fn late_body(&mut self, group: &requests::Group, case: &requests::Case) -> Option<String> {
        let &requests::Case(name, wire, fate) = case;
        let id = self.id();
        let next =
            format!("GET /{id}/next HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n");
        let bytes = bytes(&(fill_in(wire, &id) + &next));
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let (head, rest) = bytes.split_at(end);
        self.origin.take_seen();
        let read = client::exchange(self.proxy, &[head, rest], self.patience);
        let became = Became::of(&id, self.origin.take_seen(), client::statuses(&read), &read);
        let fits = became.is(fate, &id) || became.is_nothing_but_itself(fate);
        (!fits).then(|| {
            let read = String::from_utf8_lossy(&read);
            let title = group.title;
            format!("{title}: {name}, in two parts\n  {fate:?}: {became:?}\n  read {read:?}")
        })
    }

    /// Requests a response, then others, then the first again.
    pub fn answer(&mut self, group: &answers::Group, case: &answers::Case) -> Verdict {
        let &answers::Case(name, method, pieces, close, fate) = case;
        let id = self.id();
        let (first, second) = (format!("/{id}/first"), format!("/{id}/second"));
        let pieces = pieces.iter().map(|piece| bytes(&fill_in(piece, &id))).collect();
        self.origin.plan(&[(first.clone(), Plan { pieces, close })]);
        let (mut client, before) =
            (Sequence::new(self.proxy, self.patience), self.origin.answered());
        let answer = client.ask(method, &first);
        // Late bytes arrive while no request is sent, and there is time to notice them.
        self.origin.await_answered(before);
        let others = [
            client.ask("GET", &second),
            Sequence::new(self.proxy, self.patience).ask("GET", &second),
        ];
        let again =
            b"HTTP/1.1 404 Not Found\r\nCache-Control: no-store\r\nContent-Length: 5\r\n\r\nagain";
        self.origin.plan(&[(first.clone(), Plan { pieces: vec![again.to_vec()], close: false })]);
        let later = client.ask("GET", &first);
        let came = Came { answer, others, later };
        let right = came.is(fate) && came.words() == fate.words();
        let complaint = (!right)
            .then(|| format!("{}: {name}\n  expected {fate:?}, got {came:#?}", group.title));
        Verdict { words: came.words(), complaint }
    }
}

/// The result of a request.
#[derive(Debug)]
struct Became {
    /// The request as the origin server received it.
    first: Option<Request>,
    /// True if the following request reached the origin server.
    next: bool,
    /// Any other requests.
    others: Vec<String>,
    /// Requests of an earlier case.
    late: Vec<String>,
    /// Errors of the origin server's parser.
    malformed: Vec<String>,
    statuses: Vec<u16>,
    /// True if bytes arrived that are not a response.
    without_head: bool,
}

/// Returns whether a target has the name of another case.
fn is_of_another(target: &str, id: &str) -> bool {
    let is_name = |part: &str| {
        let digits = part.strip_prefix('c').unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    };
    target.split(['/', '\\']).any(|part| is_name(part) && part != id)
}

/// The origin server's error for a request whose end never came.
const WITHOUT_END: &str = "a request that does not end";

impl Became {
    fn of(id: &str, seen: Vec<Seen>, statuses: Vec<u16>, read: &[u8]) -> Became {
        let without_head = statuses.is_empty() && !read.is_empty();
        let (first, next, others, late, malformed) =
            (None, false, Vec::new(), Vec::new(), Vec::new());
        let mut became = Became { first, next, others, late, malformed, statuses, without_head };
        for Seen { bytes, parsed } in seen {
            let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
            match parsed {
                Parsed::Malformed(why) => became.malformed.push(why),
                // The origin server may notice the end of an earlier case's connection only now.
                Parsed::Unfinished if is_of_another(&String::from_utf8_lossy(line), id) => {}
                Parsed::Unfinished => became.malformed.push(WITHOUT_END.to_owned()),
                Parsed::Request(request) if is_of_another(&request.target, id) => {
                    became.late.push(request.target);
                }
                Parsed::Request(request) if request.target.contains("/next") => became.next = true,
                Parsed::Request(request)
                    if became.first.is_none() && !request.target.contains("/smuggled") =>
                {
                    became.first = Some(request);
                }
                Parsed::Request(request) => became.others.push(request.target),
            }
        }
        became
    }

    fn is(&self, fate: requests::Fate, id: &str) -> bool {
        use requests::Fate::{Answered, Broken, Kept, Last, Refused};
        let first = |body: &str| {
            let body = bytes(&fill_in(body, id));
            // Connection-specific fields must not be forwarded; WebSocket is requested anew.
            let hops = ["http2-settings", "te", "keep-alive"];
            self.first.as_ref().is_some_and(|first| {
                first.body == body
                    && first.get("upgrade").is_none_or(|to| to == "websocket")
                    && hops.iter().all(|name| first.get(name).is_none())
            })
        };
        let nothing = self.first.is_none();
        let without_end = self.malformed.iter().all(|why| why == WITHOUT_END);
        let shape = match fate {
            Refused(status) => nothing && !self.next && self.statuses == [status],
            Answered(status) => nothing && self.next && self.statuses == [status, 200],
            Kept(body) => first(body) && self.next && self.statuses == [200, 200],
            Last(body) => first(body) && !self.next && self.statuses == [200],
            Broken(status) => nothing && !self.next && self.statuses == [status] && without_end,
        };
        let incomplete = matches!(fate, Broken(_));
        let alone = self.others.is_empty() && self.late.is_empty();
        shape && alone && (incomplete || self.malformed.is_empty())
    }

    /// A request that is rejected only once it is complete may have been forwarded before. Then it
    /// is the last one of its connection, and has no other effect.
    fn is_nothing_but_itself(&self, fate: requests::Fate) -> bool {
        let without_end = self.malformed.iter().all(|why| why == WITHOUT_END);
        let refused = !matches!(fate, requests::Fate::Kept(_) | requests::Fate::Last(_));
        refused && without_end && !self.next && self.others.is_empty() && self.statuses.len() == 1
    }

    fn words(&self) -> String {
        if !self.others.is_empty() {
            return "**second request**".to_owned();
        }
        if let Some(why) = self.malformed.iter().find(|why| *why != WITHOUT_END) {
            return format!("passed on with {}", why.replace('|', "\\|"));
        }
        let next = if self.next { "" } else { ", ends" };
        match (&self.first, self.statuses.as_slice()) {
            (Some(first), _) if first.body.is_empty() => format!("passed on{next}"),
            (Some(_), _) => format!("passed on, body{next}"),
            (None, [status, ..]) if *status >= 300 => format!("{status}{next}"),
            (None, [_, ..]) => format!("answered{next}"),
            (None, []) if self.without_head => "answered without a head".to_owned(),
            (None, []) => "no answer".to_owned(),
        }
    }
}

/// The result of a response.
#[derive(Debug)]
struct Came {
    answer: Answer,
    /// The responses to other requests.
    others: [Answer; 2],
    /// The same request again, after the origin server has changed its response.
    later: Answer,
}

impl Came {
    fn has_evil(&self) -> bool {
        let all = [&self.answer, &self.others[0], &self.others[1], &self.later];
        let in_head = |line: &str| line.starts_with("set-cookie: evil") || line.contains('\r');
        let is_evil = |answer: &&Answer| {
            answer.body.contains("evil") || answer.head.to_lowercase().split('\n').any(in_head)
        };
        all.iter().any(is_evil)
    }

    fn is(&self, fate: answers::Fate) -> bool {
        use answers::Fate::{Bad, Cut, Kept, Passed};
        let usual = |answer: &Answer| answer.body == "usual" && answer.whole;
        let has = |answer: &Answer, body: &str| answer.whole && answer.body == body;
        let (answer, later) = (&self.answer, &self.later);
        let fits = match fate {
            Kept(body) => has(answer, body) && answer.status < 300 && has(later, body),
            Passed(body) => has(answer, body) && answer.status < 300 && has(later, "again"),
            Bad => answer.status == 502 && has(later, "again"),
            Cut => !answer.whole && has(later, "again"),
        };
        fits && self.others.iter().all(usual) && !self.has_evil()
    }

    fn words(&self) -> String {
        let kept = if self.later.body == "again" { "" } else { ", kept" };
        match &self.answer {
            _ if self.has_evil() => "**split**".to_owned(),
            Answer { status: 0, .. } => "no answer".to_owned(),
            Answer { whole: false, .. } => format!("cut{kept}"),
            Answer { status, .. } if *status >= 300 => format!("{status}{kept}"),
            Answer { body, .. } if body == "good" || body.is_empty() => format!("passed on{kept}"),
            Answer { .. } => format!("another body{kept}"),
        }
    }
}
