//! Who makes way when no further client would fit in: the places of `client.connections` are all
//! taken, or the process has no descriptor left.
//!
//! An open connection that waits for its client costs a place and does nothing for it. Where places
//! are short it is given up for a client that does want something, so nobody can lock the others
//! out by opening connections and leaving them. A connection with a request under way never makes
//! way. Of the others go first those that have asked for nothing, or not ended a head, in
//! [`GRACE`]; then those between two requests; and only then those that have just come. Within each
//! group whoever has waited longest goes first.
//!
//! Connections belong to workers, which alone know what theirs do: whoever needs a place asks all
//! of them, and tells those with the first in order to close them. Several are closed at once
//! where there are many, so that the search costs little beside what it brings.

use std::rc::Rc;

use tokio::sync::mpsc;

use crate::client::crowd::Ask;
use crate::server::worker::Worker;

/// Answers for one worker, for ever.
pub(crate) async fn answer(worker: Rc<Worker>, mut inbox: mpsc::UnboundedReceiver<Ask>) {
    while let Some(ask) = inbox.recv().await {
        // Whoever asked may be gone.
        match ask {
            Ask::Candidates(most, tell) => drop(tell.send(worker.connections.candidates(most))),
            Ask::Close(ids, tell) => drop(tell.send(worker.connections.close(&ids))),
            Ask::LetGo(tell) => drop(tell.send(worker.services.upstream.let_go())),
        }
    }
}
