//! Checks of passwords. A check takes tens of milliseconds, so it runs on a thread of its own, few
//! run at the same time, and a password that was right is remembered.
//!
//! Remembered is a keyed hash of the password and of its hash in the file. A changed or removed
//! line of the file thus ends it, whatever rule or reload it comes from.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::random::random;
use ring::hmac;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::client::addresses::network;
use crate::message::password_hash::PasswordHash;

/// Checks at the same time.
const CHECKS_MAX: usize = 2;

/// Requests that wait for a check, of all clients and of one client network.
const WAITING_MAX: [usize; 2] = [256, 4];

/// Right passwords that are remembered: 32 bytes each. When all are, the set begins anew.
const REMEMBERED_MAX: usize = 4096;

/// Checks of the whole process.
#[derive(Debug)]
pub(crate) struct PasswordChecks {
    secret: hmac::Key,
    right: Mutex<HashSet<[u8; 32]>>,
    running: Arc<Semaphore>,
    waiting: Mutex<Vec<IpAddr>>,
}

/// A client that waits for a check, until it is dropped.
struct WaitingClient<'a> {
    checks: &'a PasswordChecks,
    network: IpAddr,
}

/// Reports that a check cannot run now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Default for PasswordChecks {
    fn default() -> PasswordChecks {
        let secret: Vec<u8> = (0..4).flat_map(|_| random().to_ne_bytes()).collect();
        PasswordChecks {
            secret: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            right: Mutex::default(),
            running: Arc::new(Semaphore::new(CHECKS_MAX)),
            waiting: Mutex::default(),
        }
    }
}

impl PasswordChecks {
    /// Returns whether a password was found to be right before.
    pub fn is_known(&self, hash: &PasswordHash, password: &[u8]) -> bool {
        lock(&self.right).contains(&self.digest(hash, password))
    }

    /// Checks a password for a client.
    pub async fn check(
        &self,
        client: IpAddr,
        hash: &PasswordHash,
        password: &[u8],
    ) -> Result<bool, TooMany> {
        let waiting = self.wait(network(client))?;
        let permit = self.running.clone().acquire_owned().await.map_err(|_| TooMany)?;
        drop(waiting);
        // Another request of the client may have had the same password.
        if self.is_known(hash, password) {
            return Ok(true);
        }
        let (of, tried) = (hash.clone(), password.to_vec());
        // A client that is gone does not end its check, which keeps its permit.
        let check = move || (of.fits(&tried), drop(permit)).0;
        let fits = spawn_blocking(check).await.unwrap_or(false);
        if fits {
            let mut right = lock(&self.right);
            if right.len() >= REMEMBERED_MAX {
                right.clear();
            }
            right.insert(self.digest(hash, password));
        }
        Ok(fits)
    }

    fn digest(&self, hash: &PasswordHash, password: &[u8]) -> [u8; 32] {
        let text = [hash.text().as_bytes(), b"\n", password].concat();
        let mut digest = [0; 32];
        digest.copy_from_slice(hmac::sign(&self.secret, &text).as_ref());
        digest
    }

    fn wait(&self, network: IpAddr) -> Result<WaitingClient<'_>, TooMany> {
        let mut waiting = lock(&self.waiting);
        let own = waiting.iter().filter(|other| **other == network).count();
        if [waiting.len(), own].iter().zip(WAITING_MAX).any(|(count, max)| *count >= max) {
            return Err(TooMany);
        }
        waiting.push(network);
        Ok(WaitingClient { checks: self, network })
    }
}

impl Drop for WaitingClient<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.checks.waiting);
        if let Some(place) = waiting.iter().position(|other| *other == self.network) {
            waiting.swap_remove(place);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
