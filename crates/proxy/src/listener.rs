//! Accepting connections. All workers accept from the same listening sockets and hand a connection
//! on to the worker that has the fewest: with SO_REUSEPORT the kernel's hash leaves workers idle
//! when connections are few, and a second process could bind our address unnoticed.
//!
//! Running out of descriptors pauses accepting, and so does the limit of connections: one line in
//! the log, no spin.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::connection;
use crate::worker::{Shared, Worker};

/// Pause after an accept that failed for want of a resource.
const PAUSE: Duration = Duration::from_millis(200);

/// A connection on its way to its worker.
pub(crate) struct Accepted {
    stream: std::net::TcpStream,
    client: SocketAddr,
    room: OwnedSemaphorePermit,
}

/// The permit for one more connection, waited for when there are as many as may be.
async fn room(worker: &Worker) -> Option<OwnedSemaphorePermit> {
    let Shared { room, crowded, .. } = &*worker.shared;
    if let Ok(permit) = room.clone().try_acquire_owned() {
        // Said anew only after a real pause: not for each connection that comes and goes.
        if crowded.load(Ordering::Relaxed)
            && room.available_permits() >= worker.shared.loads.len() * 4
        {
            crowded.store(false, Ordering::Relaxed);
        }
        return Some(permit);
    }
    if !crowded.swap(true, Ordering::Relaxed) {
        log::warn!(
            "as many client connections are open as may be: further clients wait (raise \
             client.connections, or the limit of open files)"
        );
    }
    room.clone().acquire_owned().await.ok()
}

/// Accepts from one listener for ever. The future is dropped to stop.
pub(crate) async fn accept(
    worker: Rc<Worker>,
    listener: TcpListener,
    peers: Rc<[mpsc::UnboundedSender<Accepted>]>,
) {
    let short = &worker.shared.short_of_descriptors;
    loop {
        let Some(room) = room(&worker).await else { return };
        match listener.accept().await {
            Ok((stream, client)) => {
                if short.load(Ordering::Relaxed) && short.swap(false, Ordering::Relaxed) {
                    log::warn!("accepting connections again");
                }
                place(&worker, stream, client, room, &peers);
            }
            Err(error) if lacks_resource(&error) => {
                if !short.swap(true, Ordering::Relaxed) {
                    log::error!(
                        "cannot accept connections: {error}; trying again every {} ms (raise the \
                         limit of open files, or lower the limit of connections)",
                        PAUSE.as_millis()
                    );
                }
                sleep(PAUSE).await;
            }
            // A client that left before it was accepted, or the like.
            Err(error) => log::debug!("accept: {error}"),
        }
    }
}

/// Takes over what other workers accepted for this one.
pub(crate) async fn take_over(worker: Rc<Worker>, mut inbox: mpsc::UnboundedReceiver<Accepted>) {
    while let Some(Accepted { stream, client, room }) = inbox.recv().await {
        match TcpStream::from_std(stream) {
            Ok(stream) => start(&worker, stream, client, room),
            Err(error) => {
                worker.shared.loads[worker.index].fetch_sub(1, Ordering::Relaxed);
                log::debug!("taking over a connection: {error}");
            }
        }
    }
}

fn place(
    worker: &Rc<Worker>,
    stream: TcpStream,
    client: SocketAddr,
    room: OwnedSemaphorePermit,
    peers: &[mpsc::UnboundedSender<Accepted>],
) {
    let load = |index: usize| worker.shared.loads[index].load(Ordering::Relaxed);
    let own = worker.index;
    let least = (0..peers.len()).min_by_key(|&index| (load(index), index != own)).unwrap_or(own);
    worker.shared.loads[least].fetch_add(1, Ordering::Relaxed);
    if least == own {
        return start(worker, stream, client, room);
    }
    match stream.into_std() {
        Ok(stream) => {
            if peers[least].send(Accepted { stream, client, room }).is_err() {
                // That worker is gone: we are shutting down.
                worker.shared.loads[least].fetch_sub(1, Ordering::Relaxed);
            }
        }
        Err(error) => {
            worker.shared.loads[least].fetch_sub(1, Ordering::Relaxed);
            log::debug!("handing a connection over: {error}");
        }
    }
}

fn start(worker: &Rc<Worker>, stream: TcpStream, client: SocketAddr, room: OwnedSemaphorePermit) {
    let worker = worker.clone();
    spawn_local(async move {
        connection::run(worker, stream, client).await;
        drop(room);
    });
}

/// EMFILE, ENFILE, ENOBUFS, ENOMEM.
fn lacks_resource(error: &io::Error) -> bool {
    const NAMES: [i32; 4] = [24, 23, 105, 12];
    error.raw_os_error().is_some_and(|code| NAMES.contains(&code))
}
