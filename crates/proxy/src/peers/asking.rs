//! Questions to other nodes on behalf of one request, and the decision whether to keep a copy of
//! the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fleet::lookup::{Ask, Asked, Keep, LookupPlan, Reach, Request};

use http::header::HeaderMap;
use http::{Response, StatusCode, header};
use http_body::Body;
use upstream::connection::origin_body::OriginBody;

use crate::peers::node::Node;
use crate::peers::question::About;

/// Returns the bit of a question; none beyond the 32nd, which there is not.
fn bit(number: usize) -> u32 {
    u32::try_from(number).ok().and_then(|number| 1u32.checked_shl(number)).unwrap_or(0)
}

fn is_nothing(keep: Keep) -> bool {
    !keep.memory && !keep.disk
}

fn content_type(fields: &HeaderMap) -> Option<&str> {
    fields.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok())
}

/// The plan of one request.
#[derive(Debug)]
pub(crate) struct Asking {
    node: Arc<Node>,
    request: Request,
    plan: LookupPlan,
    host: String,
    pub about: About,
    /// The questions that were answered, each a bit by its number.
    answered: AtomicU32,
}

impl Asking {
    /// Plans a request; `None` when no other node matters for it.
    pub fn of(node: &Arc<Node>, request: Request, host: &str, about: About) -> Option<Arc<Asking>> {
        let policy = node.with_known(about.key, host, |facts| node.policy(facts));
        let plan = node.plan(&request, &policy)?;
        let (node, host, answered) = (node.clone(), host.to_owned(), AtomicU32::new(0));
        Some(Arc::new(Asking { node, request, plan, host, about, answered }))
    }

    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Returns the questions, one after another.
    pub fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.plan.asks()
    }

    /// Returns the questions that take the place of a request to the origin.
    pub fn substitutes(&self) -> Vec<Ask> {
        self.node.substitutes(&self.request, &self.plan)
    }

    /// Returns whether another node asked, which asks the origin itself if it gets no answer.
    pub fn is_for_peer(&self) -> bool {
        self.request.asked != Asked::ByClient
    }

    /// Returns the questions that no node has answered yet, each with its number: a node whose
    /// answer broke off is not asked for the rest of it.
    pub fn unanswered(&self) -> impl Iterator<Item = (usize, &Ask)> {
        let answered = self.answered.load(Ordering::Relaxed);
        self.asks().enumerate().filter(move |(number, _)| answered & bit(*number) == 0)
    }

    /// Notes that the question of this number was answered.
    pub fn note_answered(&self, number: usize) {
        self.answered.fetch_or(bit(number), Ordering::Relaxed);
    }

    /// Returns whether there is any question.
    pub fn asks_anybody(&self) -> bool {
        self.asks().next().is_some()
    }

    /// Returns whether another node is asked to get the document wherever it is.
    pub fn asks_owner(&self) -> bool {
        self.asks().any(|ask| ask.reach == Reach::Origin)
    }

    /// Returns whether memories of other nodes are asked before this node's device.
    pub fn asks_memories(&self) -> bool {
        self.plan.asks_memories()
    }

    /// Returns whether only memories of other nodes are asked: the device of this node has the
    /// document.
    pub fn memories_only(&self) -> bool {
        self.request.on_own_disk
    }

    /// Returns whether nothing of an answer is kept, as far as is known before it comes.
    pub fn keeps_nothing(&self) -> bool {
        is_nothing(self.plan.keep)
    }

    /// Returns whether an answer may be kept although the document that is expected would not be.
    pub fn may_keep_another(&self) -> bool {
        self.node.depends_on_answers()
    }

    /// Returns whether a copy of this answer is kept here.
    pub fn keeps(&self, response: &Response<OriginBody>) -> bool {
        let size = response.body().size_hint().exact();
        !is_nothing(self.keep(size, content_type(response.headers())))
    }

    /// Remembers the size and type of the document in an answer, for the next lookup.
    pub fn note_document(&self, response: &Response<OriginBody>) {
        if response.status() == StatusCode::OK {
            let fields = response.headers();
            // The response to a HEAD tells the length of a body that it does not have.
            let size = fields.get(header::CONTENT_LENGTH).and_then(|len| len.to_str().ok());
            let size = size.and_then(|size| size.parse().ok());
            self.node.note_document(self.about.key, size, content_type(fields));
        }
    }

    /// Records that no copy of the answer is in this node's memory, whatever its class says.
    pub fn note_not_kept(&self) {
        if self.request.asked == Asked::ByClient {
            let (node, key) = (&self.node, self.about.key);
            let policy = node.with_known(key, &self.host, |facts| node.policy(facts));
            node.note_left(key, &policy);
        }
    }

    /// Returns what is kept of an answer with a body of this size and type.
    pub fn keep(&self, size: Option<u64>, content_type: Option<&str>) -> Keep {
        let facts = self.node.facts(self.about.key, size, content_type, &self.host);
        let plan = self.node.plan(&self.request, &self.node.policy(&facts));
        plan.map_or(self.plan.keep, |plan| plan.keep)
    }

    /// Returns with how many hops another node may be asked to fetch.
    pub fn waits_with(&self) -> Option<u8> {
        self.plan.waits_with()
    }
}
