//! The seal of datagrams between nodes that share a key.
//!
//! A sealed datagram is a random nonce of 96 bits, the message in ChaCha20-Poly1305 (RFC 8439,
//! 2.8), and its tag. The key is derived from the shared one by HKDF with SHA-256 (RFC 5869), for
//! this purpose and this fleet: a datagram sealed for another fleet does not open, even with the
//! same shared key. Two equal nonces would reveal two messages and let an attacker forge datagrams.
//! Among 2³² datagrams, which three nodes send in four years and 300 nodes in nine days, two nonces
//! are equal with a probability of 2⁻³³; in ten years of 300 nodes it is 2⁻¹⁶.
//!
//! The seal does not detect replays: a recorded datagram opens again later. This is harmless where
//! a message only states how far a node had come. Heartbeats and versions of a node that are not
//! higher than the known ones are ignored, so a replay changes nothing that is known, and a
//! restarted node counts as a different one (its generation is higher). A replay can name a node
//! again that all members have forgotten. An attacker who replays a whole recording, in order and
//! at its pace, makes such a node seem alive to a member. Requests to it then fail, like those to a
//! member that has just died: responses are late, never wrong.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes that a seal adds.
pub const OVERHEAD: usize = NONCE_LEN + 16;

/// Purpose of the derived key.
const LABEL: &[u8] = b"larder fleet gossip datagrams 1";

/// The seal of a fleet.
pub struct Seal {
    key: LessSafeKey,
    random: SystemRandom,
}

impl Seal {
    /// Derives the seal of a fleet.
    pub fn new(shared: &[u8; 32], fleet: &str) -> Seal {
        let secret = Salt::new(HKDF_SHA256, &[]).extract(shared);
        let info = [LABEL, fleet.as_bytes()];
        // HKDF yields up to 255 times the hash's length; one is needed.
        #[allow(clippy::expect_used)]
        let key = secret.expand(&info, &CHACHA20_POLY1305).expect("32 bytes are few for HKDF");
        Seal { key: LessSafeKey::new(UnboundKey::from(key)), random: SystemRandom::new() }
    }

    /// Starts a datagram; append the message to it.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub fn begin(&self, datagram: &mut Vec<u8>) -> Result<(), ring::error::Unspecified> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce)?;
        datagram.extend_from_slice(&nonce);
        Ok(())
    }

    /// Seals a datagram that consists of a nonce and a message.
    ///
    /// # Errors
    ///
    /// It is longer than the cipher allows, or has no nonce.
    pub fn finish(&self, datagram: &mut Vec<u8>) -> Result<(), ring::error::Unspecified> {
        let (nonce, message) =
            datagram.split_first_chunk_mut::<NONCE_LEN>().ok_or(ring::error::Unspecified)?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), message)?;
        datagram.extend_from_slice(tag.as_ref());
        Ok(())
    }

    /// Returns the message of a datagram, or `None` if it does not open.
    pub fn open<'a>(&self, datagram: &'a mut [u8]) -> Option<&'a [u8]> {
        let (nonce, sealed) = datagram.split_first_chunk_mut::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.key.open_in_place(nonce, Aad::empty(), sealed).ok().map(|message| &*message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(seal: &Seal, message: &[u8]) -> Vec<u8> {
        let mut datagram = Vec::new();
        seal.begin(&mut datagram).unwrap();
        datagram.extend_from_slice(message);
        seal.finish(&mut datagram).unwrap();
        datagram
    }

    #[test]
    fn a_seal_opens_what_it_sealed() {
        let seal = Seal::new(&[7; 32], "fleet");
        for message in [&b""[..], b"a", &[9; 65_000]] {
            let mut datagram = sealed(&seal, message);
            assert_eq!(datagram.len(), message.len() + OVERHEAD);
            assert_ne!(datagram, sealed(&seal, message), "no nonce is used twice");
            assert_eq!(seal.open(&mut datagram), Some(message));
        }
    }

    #[test]
    fn another_key_another_fleet_and_every_change_keep_it_shut() {
        let seal = Seal::new(&[7; 32], "fleet");
        let datagram = sealed(&seal, b"message");
        assert!(Seal::new(&[8; 32], "fleet").open(&mut datagram.clone()).is_none());
        assert!(Seal::new(&[7; 32], "other").open(&mut datagram.clone()).is_none());
        for bit in 0..datagram.len() * 8 {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(seal.open(&mut changed).is_none(), "bit {bit}");
        }
        for length in 0..datagram.len() {
            assert!(seal.open(&mut datagram[..length].to_vec()).is_none(), "{length} bytes");
        }
    }

    /// The derivation is part of the protocol: nodes of different versions must open each other's
    /// datagrams.
    #[test]
    fn the_key_is_derived_as_it_always_was() {
        let seal = Seal::new(&[7; 32], "fleet");
        let mut datagram = vec![1; NONCE_LEN];
        datagram.extend_from_slice(b"message");
        seal.finish(&mut datagram).unwrap();
        let sealed: String = datagram.iter().map(|byte| format!("{byte:02x}")).collect();
        let (nonce, rest) = sealed.split_at(2 * NONCE_LEN);
        assert_eq!(nonce, "01".repeat(NONCE_LEN));
        assert_eq!(rest, "c850cd053d9789814b4f5ccdd78801e486e85c9e41cdd7");
    }
}
