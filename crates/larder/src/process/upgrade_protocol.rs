//! The upgrade protocol, both sides: one process hands its listening sockets and its caches over to
//! the next.
//!
//! The old process starts the new one with a Unix socket as its standard input. The socket carries
//! the listening sockets, and then single letters:
//!
//! ```text
//! old: sockets   the listening sockets, by name
//! new: R         configuration, certificates and sockets are good: ready to take over
//!      F why     or they are not; the old process goes on as if nothing had happened
//! old: S         it has stopped accepting: clients that come now wait in the kernel's queues
//! old: X         nothing there needs the caches any more, they are closed and released
//! new: V         clients are accepted; after this the old process may go
//! ```
//!
//! `X` and `V` come in either order: if running requests take long, the new process serves without
//! the caches until they are released. If the connection ends before `V`, the old process concludes
//! that the new one failed, and the new one that it is not needed. After `V` the new one has failed
//! if it ended other than in order: it may itself have been replaced or stopped meanwhile.

use std::env;
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use listenfd::ListenFd;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::config::listen_addr::ListenAddr;

/// Environment variable that is set for a process that is to take over.
const VARIABLE: &str = "LARDER_HANDOVER";

/// Maximum number of sockets to hand over; the kernel accepts 253.
const SOCKETS_MAX: usize = 250;

/// Maximum size of all their names in bytes.
const NAMES_MAX: usize = 64 << 10;

/// Timeout for each step that does not depend on clients.
const STEP: Duration = Duration::from_secs(60);

/// Time for running requests to finish once the new process has failed. New clients wait meanwhile.
const GRACE: Duration = Duration::from_secs(1);

const READY: u8 = b'R';
const FAILED: u8 = b'F';
const STOPPED: u8 = b'S';
const RELEASED: u8 = b'X';
const SERVING: u8 = b'V';

/// A listening socket, with the name by which the configuration knows it.
#[derive(Debug)]
pub struct PassedSocket {
    /// The address as configured.
    pub name: String,
    pub socket: OwnedFd,
}

/// Listening sockets that existed before this process.
#[derive(Debug, Default)]
pub struct Inherited(Vec<PassedSocket>);

impl Inherited {
    /// Returns the listening sockets that a service manager passed (`LISTEN_FDS`), named by their
    /// addresses.
    pub fn of_service_manager() -> Inherited {
        let mut given = ListenFd::from_env();
        let mut all = Vec::new();
        for number in 0..given.len() {
            if let Ok(Some(socket)) = given.take_tcp_listener(number) {
                let name = socket.local_addr().map(|address| address.to_string());
                all.push(PassedSocket { name: name.unwrap_or_default(), socket: socket.into() });
            } else if let Ok(Some(socket)) = given.take_unix_listener(number) {
                let address = socket.local_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname());
                let name = path.map(|path| ListenAddr::Unix(path.to_owned()).to_string());
                all.push(PassedSocket { name: name.unwrap_or_default(), socket: socket.into() });
            } else {
                log::warn!(
                    "LISTEN_FDS: descriptor {} is not a listening stream socket",
                    number + 3
                );
            }
        }
        Inherited(all)
    }

    /// Removes and returns the socket with this name, if there is one.
    pub fn take(&mut self, name: &str) -> Option<OwnedFd> {
        let at = self.0.iter().position(|passed| passed.name == name)?;
        Some(self.0.swap_remove(at).socket)
    }

    /// Returns the names of the sockets that have not been taken.
    pub fn left(&self) -> Vec<&str> {
        self.0.iter().map(|passed| passed.name.as_str()).collect()
    }
}

/// The new process, from the old one's point of view.
#[derive(Debug)]
pub struct Successor {
    child: Arc<Mutex<Child>>,
    link: UnixStream,
    /// True if the process was told that the caches are released.
    told: bool,
    /// Receives a message when the process serves; disconnected when it has failed.
    serves: Receiver<()>,
    /// Dropped when the drain of this process has ended.
    drains: Sender<()>,
}

/// Why a new process did not take over.
#[derive(Debug)]
pub struct Failed {
    pub why: &'static str,
    /// True if it has accepted clients.
    pub has_served: bool,
}

impl Successor {
    /// Starts `program` and waits until it is ready to take over. If it ends later, while this
    /// process drains, `ended` is called: with false [`GRACE`] after it failed, with true if it has
    /// served and stopped in order.
    pub fn raise(
        program: &Path,
        arguments: &[OsString],
        sockets: &[PassedSocket],
        ended: impl FnOnce(bool) + Send + 'static,
    ) -> Result<Successor, String> {
        let failed = |error: io::Error| format!("cannot communicate with the new process: {error}");
        let (link, theirs) = UnixStream::pair().map_err(failed)?;
        let child = Command::new(program)
            .args(arguments)
            .env(VARIABLE, "1")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
        let child = Arc::new(Mutex::new(child));
        let watched = introduce(&link, sockets)
            .and_then(|()| watch(&link, child.clone(), ended).map_err(failed));
        match watched {
            Ok((serves, drains)) => Ok(Successor { child, link, told: false, serves, drains }),
            Err(why) => {
                end(&child);
                Err(why)
            }
        }
    }

    pub fn pid(&self) -> u32 {
        locked(&self.child).id()
    }

    /// Reports that this process no longer accepts clients.
    pub fn stopped(&mut self) -> io::Result<()> {
        self.link.write_all(&[STOPPED])
    }

    pub fn released(&mut self) -> io::Result<()> {
        self.told = true;
        self.link.write_all(&[RELEASED])
    }

    /// Reports that the caches are released, if not yet done, and waits until the new process
    /// serves. Called when the drain has ended.
    pub fn take_over(mut self) -> Result<(), Failed> {
        if !self.told {
            // The watching thread notices a process that is gone.
            let _ = self.released();
        }
        let Successor { child, serves, drains, .. } = self;
        drop(drains);
        let served = serves.recv_timeout(STEP);
        let why = match served {
            // The message may be older than the failure.
            Ok(()) if !has_failed(&child) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => "the new process does not answer",
            _ => "the new process has failed; see its log",
        };
        end(&child);
        Err(Failed { why, has_served: served.is_ok() })
    }
}

/// Passes the sockets to the new process and waits until it is ready.
fn introduce(mut link: &UnixStream, sockets: &[PassedSocket]) -> Result<(), String> {
    let gone = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
    };
    let mut word = [0];
    let spoken = link
        .set_read_timeout(Some(STEP))
        .and_then(|()| link.set_write_timeout(Some(STEP)))
        .and_then(|()| send_sockets(link, sockets))
        .and_then(|()| link.read(&mut word));
    match spoken {
        Ok(1) if word[0] == READY => Ok(()),
        Ok(1) if word[0] == FAILED => {
            let mut why = String::new();
            // The error already describes the outcome.
            let _ = link.read_to_string(&mut why);
            Err(format!("the new process cannot take over: {}", why.trim()))
        }
        // The new process may exit without reading everything.
        Err(error) if !gone(&error) => {
            Err(format!("cannot communicate with the new process: {error}"))
        }
        _ => Err("the new process exited before it was ready; see its log".to_owned()),
    }
}

/// Watches the new process on a thread; see the fields of [`Successor`] for what is returned.
fn watch(
    link: &UnixStream,
    child: Arc<Mutex<Child>>,
    ended: impl FnOnce(bool) + Send + 'static,
) -> io::Result<(Receiver<()>, Sender<()>)> {
    let (tell, serves) = mpsc::channel();
    let (drains, drained) = mpsc::channel();
    let mut link = link.try_clone()?;
    // The drain may take any time.
    link.set_read_timeout(None)?;
    let watch = move || {
        let (mut word, mut has_served) = ([0], false);
        while link.read_exact(&mut word).is_ok() {
            if word[0] == SERVING {
                has_served = true;
                // The receiver may be gone.
                let _ = tell.send(());
            }
        }
        let is_well = end(&child) && has_served;
        drop(tell);
        if is_well {
            return ended(true);
        }
        if drained.try_recv() == Err(TryRecvError::Disconnected) {
            return;
        }
        let pid = locked(&child).id();
        log::error!("upgrade: process {pid} has failed; running requests have 1 s to finish");
        // Nothing is sent: the wait ends early when the drain has ended.
        if drained.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
            ended(false);
        }
    };
    thread::Builder::new().name("successor".to_owned()).spawn(watch)?;
    Ok((serves, drains))
}

/// Ends a process that may have exited already. Returns whether it had exited with success.
fn end(child: &Mutex<Child>) -> bool {
    let mut child = locked(child);
    // The signal does not change the status of a process that is exiting.
    let _ = child.kill();
    child.wait().is_ok_and(|status| status.success())
}

/// Returns whether the process has ended without success.
fn has_failed(child: &Mutex<Child>) -> bool {
    !matches!(locked(child).try_wait(), Ok(None)) && !end(child)
}

fn locked(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The old process, from the new one's point of view.
#[derive(Debug)]
pub struct Predecessor {
    link: UnixStream,
}

impl Predecessor {
    /// Returns the process that started this one to take over, if there is one, and its sockets.
    pub fn find() -> Result<Option<(Predecessor, Inherited)>, String> {
        if env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let failed = |error: io::Error| {
            format!(
                "{VARIABLE} is set, but nothing is handed over on standard input ({error}); the \
                 variable is only for upgrades (SIGUSR2)"
            )
        };
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
        let link = UnixStream::from(input);
        link.set_read_timeout(Some(STEP)).map_err(failed)?;
        let sockets = receive_sockets(&link).map_err(failed)?;
        Ok(Some((Predecessor { link }, Inherited(sockets))))
    }

    /// Reports why this process cannot take over.
    pub fn refuse(mut self, why: &str) {
        // The old process notices the end of the connection in any case.
        let _ = self.link.write_all(&[FAILED]).and_then(|()| self.link.write_all(why.as_bytes()));
    }

    /// Reports that this process is ready, and waits until the other stops accepting.
    pub fn ready(&mut self) -> Result<(), String> {
        let gone = |_| "the old process is gone".to_owned();
        self.link.write_all(&[READY]).map_err(gone)?;
        let mut word = [0];
        match self.link.read(&mut word) {
            Ok(1) if word[0] == STOPPED => Ok(()),
            Ok(_) => Err("the old process cancelled the upgrade".to_owned()),
            Err(error) => Err(format!("the old process does not respond: {error}")),
        }
    }

    /// Returns a second handle, for another thread.
    pub fn try_clone(&self) -> io::Result<Predecessor> {
        Ok(Predecessor { link: self.link.try_clone()? })
    }

    /// Waits until the caches are released. They also are if the other process has exited.
    pub fn await_release(&mut self) {
        // The old process may take any time to finish its requests.
        let _ = self.link.set_read_timeout(None);
        let mut word = [0];
        while matches!(self.link.read(&mut word), Ok(1) if word[0] != RELEASED) {}
    }

    pub fn serving(&mut self) {
        // The old process may have exited.
        let _ = self.link.write_all(&[SERVING]);
    }
}

fn send_sockets(link: &UnixStream, sockets: &[PassedSocket]) -> io::Result<()> {
    let names: Vec<&str> = sockets.iter().map(|passed| passed.name.as_str()).collect();
    let names = names.join("\n");
    if sockets.len() > SOCKETS_MAX || names.len() > NAMES_MAX {
        let text = format!("more than {SOCKETS_MAX} listeners cannot be handed over");
        return Err(io::Error::other(text));
    }
    let length = u32::try_from(names.len()).unwrap_or(u32::MAX).to_le_bytes();
    let handles: Vec<_> = sockets.iter().map(|passed| passed.socket.as_fd()).collect();
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !handles.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&handles));
    }
    let sent = sendmsg(link, &[IoSlice::new(&length)], &mut control, SendFlags::NOSIGNAL)?;
    let mut link = link;
    link.write_all(&length[sent..])?;
    link.write_all(names.as_bytes())
}

fn receive_sockets(link: &UnixStream) -> io::Result<Vec<PassedSocket>> {
    let mut length = [0; 4];
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let slices = &mut [IoSliceMut::new(&mut length)];
    let got = recvmsg(link, slices, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    if got == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut sockets = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(handles) = message {
            sockets.extend(handles);
        }
    }
    let mut link = link;
    link.read_exact(&mut length[got..])?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the socket names are invalid");
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > NAMES_MAX {
        return Err(wrong());
    }
    let mut names = vec![0; length];
    link.read_exact(&mut names)?;
    let names = String::from_utf8(names).map_err(|_| wrong())?;
    let names: Vec<&str> = names.lines().collect();
    if names.len() != sockets.len() {
        return Err(wrong());
    }
    let all = names.into_iter().zip(sockets);
    Ok(all.map(|(name, socket)| PassedSocket { name: name.to_owned(), socket }).collect())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn sockets_arrive_with_their_names() {
        let directory = tempfile::tempdir().unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        let unix = UnixListener::bind(directory.path().join("x")).unwrap();
        let sockets = [
            PassedSocket { name: "127.0.0.1:0".to_owned(), socket: tcp.into() },
            PassedSocket { name: "unix:/x".to_owned(), socket: unix.into() },
        ];
        let (one, other) = UnixStream::pair().unwrap();
        send_sockets(&one, &sockets).unwrap();
        drop(sockets);
        let mut inherited = Inherited(receive_sockets(&other).unwrap());
        assert!(inherited.take("127.0.0.1:1").is_none());
        let tcp = TcpListener::from(inherited.take("127.0.0.1:0").unwrap());
        assert_eq!(inherited.left(), ["unix:/x"]);
        let _client = TcpStream::connect(address).unwrap();
        assert!(tcp.accept().is_ok());
    }

    #[test]
    fn none_and_nonsense() {
        let (one, other) = UnixStream::pair().unwrap();
        send_sockets(&one, &[]).unwrap();
        assert!(receive_sockets(&other).unwrap().is_empty());
        let (mut one, other) = UnixStream::pair().unwrap();
        one.write_all(b"\x02\0\0\0ab").unwrap();
        assert!(receive_sockets(&other).is_err());
        let (one, other) = UnixStream::pair().unwrap();
        drop(one);
        assert!(receive_sockets(&other).is_err());
    }
}
