//! The worker's side of closing idle connections for the `ConnectionReclaimer`.

use std::rc::Rc;

use tokio::sync::mpsc;

use crate::client::reclaimer::Ask;
use crate::server::worker::Worker;

/// Answers the reclaimer's requests for one worker until the channel closes.
pub(crate) async fn answer(worker: Rc<Worker>, mut inbox: mpsc::UnboundedReceiver<Ask>) {
    while let Some(ask) = inbox.recv().await {
        // The task that asked may be gone.
        match ask {
            Ask::Candidates(most, group, tell) => {
                drop(tell.send(worker.connections.candidates(most, group)));
            }
            Ask::Close(ids, tell) => drop(tell.send(worker.connections.close(&ids))),
            Ask::CloseAbandoned(servers, most, tell) => {
                let _ = tell.send(worker.connections.close_abandoned(servers, most));
            }
            Ask::CloseUpstreams(tell) => drop(tell.send(worker.services.upstream.close_idle())),
        }
    }
}
