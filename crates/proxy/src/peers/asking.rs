//! What is asked of other nodes for one request, and what is kept of the answer.

use std::sync::Arc;

use fleet::class::DocumentFacts;
use fleet::lookup::{Ask, Keep, LookupPlan, Reach, Request, Step};

use crate::peers::node::Node;
use crate::peers::question::About;

/// The plan of one request.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    node: Arc<Node>,
    request: Request,
    plan: LookupPlan,
    host: String,
    pub about: About,
}

impl Asking {
    /// Plans a request; `None` when no other node matters for it.
    pub fn of(node: &Arc<Node>, request: Request, host: &str, about: About) -> Option<Asking> {
        let facts = DocumentFacts { host, ..DocumentFacts::default() };
        let plan = node.plan(&request, &node.policy(&facts))?;
        Some(Asking { node: node.clone(), request, plan, host: host.to_owned(), about })
    }

    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Returns the questions, one after another.
    pub fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.plan.steps.iter().filter_map(|step| match step {
            Step::Ask(ask) => Some(ask),
            Step::OwnMemory | Step::OwnDisk | Step::Origin => None,
        })
    }

    /// Returns whether there is any question.
    pub fn asks_anybody(&self) -> bool {
        self.asks().next().is_some()
    }

    /// Returns whether another node is asked to get the document wherever it is.
    pub fn asks_owner(&self) -> bool {
        self.asks().any(|ask| ask.reach == Reach::Origin)
    }

    /// Returns whether memories of other nodes are asked.
    pub fn asks_memories(&self) -> bool {
        self.asks().any(|ask| ask.reach == Reach::Memory)
    }

    /// Returns whether nothing of an answer is kept, as far as is known before it comes.
    pub fn keeps_nothing(&self) -> bool {
        !self.plan.keep.memory && !self.plan.keep.disk
    }

    /// Returns what is kept of an answer with a body of this size and type.
    pub fn keep(&self, size: Option<u64>, content_type: Option<&str>) -> Keep {
        let facts = DocumentFacts { size, content_type, host: &self.host, requests: 0 };
        let plan = self.node.plan(&self.request, &self.node.policy(&facts));
        plan.map_or(self.plan.keep, |plan| plan.keep)
    }

    /// Returns with how many hops another node may be asked to fetch.
    pub fn waits_with(&self) -> Option<u8> {
        self.plan.waits_with()
    }
}
