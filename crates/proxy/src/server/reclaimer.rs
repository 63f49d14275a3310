//! Closes idle connections of a worker when the `ConnectionReclaimer` asks for it.

use std::rc::Rc;

use tokio::sync::mpsc;

use crate::client::reclaimer::Ask;
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
